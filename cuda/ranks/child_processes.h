// The processes that a run starts for its other ranks: started, watched and, whatever happens,
// ended with their owner. They may be any program.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/ranks/channel.h"

namespace moetwin {

/// How one is started. Standard error is shared with this process; standard output and input are
/// closed to it, because they belong to rank 0.
struct ChildCommand {
  std::string program;                   ///< path
  std::vector<std::string> arguments;    ///< the first is its name
  std::vector<std::string> environment;  ///< NAME=VALUE, over this process's own
};

/// This program again, with the arguments this process was started with.
ChildCommand this_program();

class ChildProcesses {
 public:
  ChildProcesses() = default;
  /// Ends those that still run: asked to first, killed after a second.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Throws InputError where the program cannot be started.
  void start(uint32_t rank, const ChildCommand& command);

  /// How the first one that ended did so ("the process of rank 2 ended with status 3"); empty
  /// while all run.
  std::string first_ended();
  /// How the process of `rank` ended; empty while it runs or where there is none.
  std::string ended(uint32_t rank);

  /// Waits until all have ended; false where the deadline came first.
  bool wait_all(Deadline deadline);

 private:
  struct Child {
    uint32_t rank;
    pid_t pid;
    bool running = true;
    std::string how;
  };
  void look();
  void signal_all(int signal);

  std::vector<Child> children_;
};

}  // namespace moetwin
