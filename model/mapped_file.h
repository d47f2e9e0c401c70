// A file's bytes, read through a memory map. Owns opening and closing; what the bytes mean is the
// reader's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moetwin {

/// Text as it may stand in a message: printable ASCII on one line, at most `limit` characters and
/// then "...".
std::string one_line(std::string_view text, size_t limit = 200);

class MappedFile {
 public:
  /// Throws InputError, naming `what` (a field of a case, or empty) and the path, if the file
  /// cannot be opened or is not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path,
                                                const std::string& what = "");

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  explicit MappedFile(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

}  // namespace moetwin
