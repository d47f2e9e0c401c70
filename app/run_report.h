// A finished run as text for an engineer and as JSON for programs (DESIGN section 7). It decides
// nothing: what is a failure is said by RunResult.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/references.h"
#include "model/case.h"
#include "model/digest.h"
#include "model/run.h"

namespace moetwin {

struct RunReport {
  std::string backend;
  bool math = true;
  bool unsafe_ring = false;
  std::string schedule;  ///< as asked for, for the screen
  RunResult result;
  std::vector<StageDigests> digests;  ///< one a launch of the result
  std::optional<References> references;
  std::string repeat;  ///< the command that repeats the run
};

/// The case in one line and the kernel in another, for the screens of all verbs.
std::string case_lines(const Case& c, bool unsafe_ring);

/// One screen. Ends with a line break.
std::string run_screen(const Case& c, const RunReport& report);

/// The object of `run --json`: exactly the keys of DESIGN section 7. Stages a run has not got, and
/// y after a deadlock, are null; traffic is that of the last launch.
nlohmann::ordered_json run_json(const RunReport& report);

/// A list of findings, as `run --json` has it.
nlohmann::ordered_json findings_json(const std::vector<Finding>& findings,
                                     const std::string& repeat);

/// One finding in words, some lines.
std::string finding_text(const Finding& finding);

/// Digests of the stages a result has, y included if `with_y`; null for the others.
nlohmann::ordered_json stages_json(const StageDigests& digests, bool with_y);

}  // namespace moetwin
