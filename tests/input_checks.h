// What tests of generated and read inputs share: digests of values, temporary files, the text of a
// refusal.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "model/safetensors.h"

namespace moetwin::test {

/// FNV-1a over the bytes of values added, as 16 hex digits.
class ByteDigest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) {
      state_ = (state_ ^ bytes[i]) * 0x100000001B3u;
    }
  }
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(state_));
    return digits;
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

/// A file that is gone after the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& extension, std::string_view contents = {})
      : path_(
            (std::filesystem::temp_directory_path() / ("moetwin_" + std::to_string(::getpid()) +
                                                       "_" + std::to_string(count()++) + extension))
                .string()) {
    std::ofstream(path_, std::ios::binary)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  static uint32_t& count() {
    static uint32_t files = 0;
    return files;
  }
  std::string path_;
};

/// The message of the InputError that `body` throws, checked to be one line; "accepted" if it
/// throws none.
template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const InputError& error) {
    const std::string text = error.what();
    if (text.empty() || text.find('\n') != std::string::npos) return "not one line: " + text;
    return text;
  }
  return "accepted";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace moetwin::test
