// Values of options, read strictly and refused like fields of a case ("--threads: 'x' is not ..."),
// and the text of commands that a user can paste. It knows no verb.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetwin {

constexpr uint32_t kMaxThreads = 1024;

/// A decimal integer from `low` to `high`. Throws InputError "OPTION: 'TEXT' is not ...".
uint64_t read_integer_option(const std::string& option, const std::string& text, uint64_t low,
                             uint64_t high);

/// --threads: 1 to kMaxThreads; empty text is 0, all cores. Throws InputError.
uint32_t read_threads(const std::string& text);

/// --max-memory in GiB, above 0, as bytes; empty text is default_memory_limit(). Throws InputError.
uint64_t read_max_memory(const std::string& text);

/// Refuses, before work starts, a file that could not be written after it: its directory must be
/// there and it must be no directory itself. Throws InputError.
void check_output_path(const std::string& option, const std::string& path);

/// `text` as one word of a POSIX shell.
std::string shell_quote(const std::string& text);

/// A command line in the making, each word quoted where it must be.
class CommandText {
 public:
  explicit CommandText(const std::string& verb) : text_("moetwin " + verb) {}

  CommandText& word(const std::string& word);
  CommandText& option(const std::string& name, const std::string& value);
  /// Adds `name` where `given`.
  CommandText& flag(const std::string& name, bool given);
  /// Adds the option where its value is not empty.
  CommandText& given(const std::string& name, const std::string& value);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace moetwin
