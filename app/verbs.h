// The verbs of the command line: what each adds to the parser and what main() may return. Each verb
// has a file of its own, verb_NAME.cpp.
#pragma once

#include <functional>

namespace moetwin {

class VerbOptions;

/// Exit statuses. A verb returns one of the first two; the others come from exceptions.
constexpr int kExitFine = 0;
constexpr int kExitFinding = 1;   ///< a mismatch, race, deadlock, ..., or a bug of moetwin
constexpr int kExitBadInput = 2;  ///< bad usage, file or value: one line on standard error
constexpr int kExitNoDevice = 3;

/// What a verb does once the command line is read. Throws InputError and NoDeviceError.
using VerbAction = std::function<int()>;

struct Verb {
  const char* name;
  const char* summary;
  VerbAction (*add)(
      VerbOptions& options);  ///< adds options, examples; the action owns their values
};

VerbAction add_run(VerbOptions& options);
VerbAction add_diff(VerbOptions& options);
VerbAction add_case(VerbOptions& options);
VerbAction add_golden(VerbOptions& options);
VerbAction add_explain(VerbOptions& options);
VerbAction add_report(VerbOptions& options);
VerbAction add_layout(VerbOptions& options);
VerbAction add_ring(VerbOptions& options);
VerbAction add_bench(VerbOptions& options);
VerbAction add_explore(VerbOptions& options);
VerbAction add_faults(VerbOptions& options);
VerbAction add_numerics(VerbOptions& options);
VerbAction add_fuzz(VerbOptions& options);
VerbAction add_shrink(VerbOptions& options);
VerbAction add_numerics(VerbOptions& options);

}  // namespace moetwin
