// From argv to an exit status: the parser, the table of verbs, and the one place where exceptions
// become one line on standard error. What verbs do is in verb_*.cpp.
#pragma once

namespace moetwin {

/// Runs the command line and returns its exit status (verbs.h).
int run_command_line(int argc, char** argv);

}  // namespace moetwin
