// Runs the built program the way a user does: in a shell, in a directory of its own that goes away
// with the object. Only for tests of the command line.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/paths.h"

namespace moetwin {

struct Ran {
  int status = -1;
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
  bool one_line_of_error() const {
    return !err.empty() && err.find('\n') == err.size() - 1 && err.compare(0, 9, "moetwin: ") == 0;
  }
};

/// Names of an object's members.
inline std::set<std::string> keys(const nlohmann::json& object) {
  std::set<std::string> names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

class ProgramDirectory {
 public:
  ProgramDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "moetwin_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~ProgramDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ProgramDirectory(const ProgramDirectory&) = delete;
  ProgramDirectory& operator=(const ProgramDirectory&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  /// Runs `moetwin ARGUMENTS` with the directory as its working directory.
  Ran run(const std::string& arguments) const { return shell(moetwin_program() + " " + arguments); }

  /// The same with variables, NAME=VALUE and blanks between them, in the program's environment.
  Ran run_with(const std::string& variables, const std::string& arguments) const {
    return shell(variables + " " + moetwin_program() + " " + arguments);
  }

  /// The same as run() with standard error sent to `device` in place of Ran::err.
  Ran run_to(const std::string& device, const std::string& arguments) const {
    return shell(moetwin_program() + " " + arguments, device);
  }

  /// Runs a command that a message told the user to type.
  Ran paste(const std::string& command) const {
    const std::string name = "moetwin ";
    if (command.compare(0, name.size(), name) != 0) throw std::runtime_error(command);
    return run(command.substr(name.size()));
  }

 private:
  Ran shell(const std::string& command, const std::string& device = "") const {
    const std::string errors = device.empty() ? path("standard_error") : device;
    const std::string line = "cd '" + path_.string() + "' && " + command + " 2>'" + errors + "'";
    FILE* pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("no shell");
    Ran ran;
    char buffer[4096];
    for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      ran.out.append(buffer, n);
    const int status = pclose(pipe);
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (device.empty()) ran.err = read("standard_error");
    return ran;
  }

  std::filesystem::path path_;
};

}  // namespace moetwin
