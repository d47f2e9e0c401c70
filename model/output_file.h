// Files that appear whole or not at all. A regular file is written beside its target and renamed
// over it at the end; what else stands at the path (a device, a pipe) is written in place and never
// replaced. Owns no format.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace moetwin {

class OutputFile {
 public:
  /// `what` names the option or kind of file in messages (may be empty). Throws InputError when the
  /// path cannot be written, or is a pipe that nobody reads. Symbolic links are followed.
  explicit OutputFile(const std::string& path, std::string_view what = "");
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without finish() nothing is left behind and an earlier file stays as it was.
  ~OutputFile();

  /// Throws InputError when the medium takes no more.
  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text) {
    write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }

  /// Puts the file in its place. Throws InputError.
  void finish();

 private:
  [[noreturn]] void fail() const;
  void open_in_place(const std::string& path);
  void open_beside();

  std::string subject_;    ///< how messages begin
  std::string target_;     ///< the path behind symbolic links
  std::string temporary_;  ///< empty: written in place
  std::FILE* file_ = nullptr;
};

/// Writes `text` to `path` in one go. Throws InputError as OutputFile does.
void write_file(const std::string& path, std::string_view text, std::string_view what = "");

}  // namespace moetwin
