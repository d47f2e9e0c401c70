// The machines a case can run on, by name: the one place that knows them all. Everything else asks
// this table and compares results.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/golden_file.h"
#include "model/run.h"

namespace moetwin {

/// There is no device to run on. The command line turns it into exit status 3.
class NoDeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using BackendRun = std::function<RunResult(const Case& c, const RunOptions& options)>;

struct Backend {
  const char* name;
  bool simulated;  ///< has schedules, checks and runs without arithmetic
  bool on_card;    ///< one run at a time, whatever the cores
  /// One case by itself; many are run through open_backend() (card_ranks.h). Throws InputError and
  /// NoDeviceError; verdicts are findings.
  RunResult (*run)(const Case& c, const RunOptions& options);
};

/// Throws InputError that names `option` and lists the backends.
const Backend& find_backend(const std::string& option, const std::string& name);

/// Throws InputError for options that only a simulated machine can honour.
void check_options(const Backend& backend, const RunOptions& options);

/// The processor or card a backend computes on, now. Throws NoDeviceError.
GoldenMachine describe_machine(const Backend& backend);

}  // namespace moetwin
