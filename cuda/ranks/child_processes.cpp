#include "cuda/ranks/child_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "common/check.h"

extern char** environ;

namespace moetwin {
namespace {

constexpr double kGraceSeconds = 1;
constexpr auto kLook = std::chrono::milliseconds(10);

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

/// This process's environment with `changes` over it.
std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool changed = std::any_of(
        changes.begin(), changes.end(),
        [&](const std::string& change) { return name_of(change) == name_of(*variable); });
    if (!changed) merged.emplace_back(*variable);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::string how_it_ended(uint32_t rank, int status) {
  const std::string who = "the process of rank " + std::to_string(rank);
  if (WIFSIGNALED(status)) return who + " was ended by signal " + std::to_string(WTERMSIG(status));
  return who + " ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ChildCommand this_program() {
  ChildCommand command;
  command.program = "/proc/self/exe";
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');)
    command.arguments.push_back(argument);
  return command;
}

void ChildProcesses::start(uint32_t rank, const ChildCommand& command) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, nullptr,
                                pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw InputError("--gpus: the process of rank " + std::to_string(rank) +
                     " cannot be started: " + std::strerror(error));
  children_.push_back({rank, pid, true, ""});
}

void ChildProcesses::look() {
  for (Child& child : children_) {
    if (!child.running) continue;
    int status = 0;
    const pid_t got = waitpid(child.pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) continue;
    child.running = false;
    child.how = got < 0 ? "the process of rank " + std::to_string(child.rank) + " is gone"
                        : how_it_ended(child.rank, status);
  }
}

std::string ChildProcesses::first_ended() {
  look();
  for (const Child& child : children_)
    if (!child.running) return child.how;
  return "";
}

std::string ChildProcesses::ended(uint32_t rank) {
  look();
  for (const Child& child : children_)
    if (child.rank == rank) return child.how;
  return "";
}

bool ChildProcesses::wait_all(Deadline deadline) {
  for (;;) {
    look();
    if (std::none_of(children_.begin(), children_.end(), [](const Child& c) { return c.running; }))
      return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLook);
  }
}

void ChildProcesses::signal_all(int signal) {
  for (const Child& child : children_)
    if (child.running) ::kill(child.pid, signal);
}

ChildProcesses::~ChildProcesses() {
  if (wait_all(seconds_from_now(0))) return;
  signal_all(SIGTERM);
  if (wait_all(seconds_from_now(kGraceSeconds))) return;
  signal_all(SIGKILL);
  wait_all(seconds_from_now(kGraceSeconds));
}

}  // namespace moetwin
