#include "app/arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/check.h"
#include "model/memory_estimate.h"

namespace moetwin {
namespace {

/// Short, printable and on one line.
std::string shown(const std::string& text) {
  constexpr size_t kShown = 60;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kShown ? "...'" : "'");
}

}  // namespace

uint64_t read_integer_option(const std::string& option, const std::string& text, uint64_t low,
                             uint64_t high) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (text.empty() || read.ec != std::errc{} || read.ptr != end || value < low || value > high)
    throw InputError(
        fmt::format("{}: {} is not an integer from {} to {}", option, shown(text), low, high));
  return value;
}

uint32_t read_threads(const std::string& text) {
  if (text.empty()) return 0;
  return static_cast<uint32_t>(read_integer_option("--threads", text, 1, kMaxThreads));
}

uint64_t read_max_memory(const std::string& text) {
  if (text.empty()) return default_memory_limit();
  constexpr double kMostGib = 1 << 20;
  double gib = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, gib);
  if (read.ec != std::errc{} || read.ptr != end || !(gib > 0) || gib > kMostGib)
    throw InputError(fmt::format("--max-memory: {} is not a number of GiB above 0, at most {}",
                                 shown(text), kMostGib));
  return static_cast<uint64_t>(std::ldexp(gib, 30));
}

void check_output_path(const std::string& option, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, error))
    throw InputError(fmt::format("{}: {} is not in a directory that exists", option, shown(path)));
  if (path.empty() || fs::is_directory(path, error))
    throw InputError(fmt::format("{}: {} is not the name of a file", option, shown(path)));
}

std::string shell_quote(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:@=,%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

CommandText& CommandText::word(const std::string& word) {
  text_ += " " + shell_quote(word);
  return *this;
}

CommandText& CommandText::option(const std::string& name, const std::string& value) {
  text_ += " " + name + " " + shell_quote(value);
  return *this;
}

CommandText& CommandText::flag(const std::string& name, bool given) {
  if (given) text_ += " " + name;
  return *this;
}

CommandText& CommandText::given(const std::string& name, const std::string& value) {
  return value.empty() ? *this : option(name, value);
}

}  // namespace moetwin
