// Plain bytes of the messages between the processes of a run: numbers, texts and arrays, written
// one after the other and read back in the same order. One host, so one byte order.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace moetwin {

/// A message that holds less, or more, than its reader asks for: the other process is another
/// version, or not one of ours.
class MessageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MessageWriter {
 public:
  template <class T>
  MessageWriter& value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  MessageWriter& text(std::string_view text) {
    value<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }
  template <class T>
  MessageWriter& values(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    value<uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class MessageReader {
 public:
  /// `bytes` must stay until the last call.
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text() {
    const uint64_t size = value<uint64_t>();
    return std::string(take(size));
  }
  template <class T>
  std::vector<T> values() {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t count = value<uint64_t>();
    if (count > rest_.size() / sizeof(T)) throw MessageError("a message is cut short");
    std::vector<T> values(count);
    const std::string_view bytes = take(count * sizeof(T));
    if (count != 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) throw MessageError("a message is cut short");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
};

}  // namespace moetwin
