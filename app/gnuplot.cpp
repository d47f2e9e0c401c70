#include "app/gnuplot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/check.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

/// A file of its own in the system's temporary directory, gone at the end.
class TemporaryScript {
 public:
  explicit TemporaryScript(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "moetwin_XXXXXX").string();
    const int file = mkstemp(path_.data());
    if (file < 0) throw InputError("--plot: no file can be made in the temporary directory");
    close(file);
    write_file(path_, text, "--plot");
  }
  ~TemporaryScript() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryScript(const TemporaryScript&) = delete;
  TemporaryScript& operator=(const TemporaryScript&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Output {
  std::string text;
  bool succeeded = false;
};

Output output_of(const std::string& command) {
  Output output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.text.append(buffer, n);
  output.succeeded = pclose(pipe) == 0;
  return output;
}

}  // namespace

void check_gnuplot() {
  if (!output_of("gnuplot --version 2>/dev/null").succeeded)
    throw InputError("--plot: gnuplot is not installed (Debian package gnuplot-nox)");
}

void write_svg(const std::string& path, const std::string& script, int width, int height) {
  check_gnuplot();
  const std::string terminal = fmt::format(
      "set terminal svg size {},{} font 'Helvetica,13' linewidth 1.5 background '#ffffff'\n"
      "set encoding utf8\n",
      width, height);
  const TemporaryScript file(terminal + script);
  const Output output = output_of("gnuplot -d '" + file.path() + "' 2>/dev/null");
  MOETWIN_CHECK(output.succeeded && output.text.find("</svg>") != std::string::npos);
  write_file(path, output.text, "--plot");
}

std::string gnuplot_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "' noenhanced";
}

}  // namespace moetwin
