// The verbs of the command line: what each adds to the parser and what main() may return. Each verb
// has a file of its own, verb_NAME.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace moetwin {

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
  VerbAction (*add)(CLI::App& app);  ///< adds options, examples; the action owns their values
};

VerbAction add_run(CLI::App& app);
VerbAction add_diff(CLI::App& app);
VerbAction add_case(CLI::App& app);
VerbAction add_golden(CLI::App& app);
VerbAction add_layout(CLI::App& app);
VerbAction add_ring(CLI::App& app);
VerbAction add_bench(CLI::App& app);

}  // namespace moetwin
