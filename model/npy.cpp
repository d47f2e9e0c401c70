#include "model/npy.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "common/check.h"
#include "model/mapped_file.h"

namespace moetwin {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxDimensions = 32;

struct Header {
  std::string type;
  bool column_major = false;
  std::vector<uint64_t> shape;
};

/// Reads the header, a Python dict literal with the keys descr, fortran_order and shape.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void read(Header& array) {
    expect('{');
    bool seen[3] = {};
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      const size_t field = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      if (field == 3) fail("has an unknown key '" + one_line(key, 40) + "'");
      if (seen[field]) fail("gives '" + std::string(key) + "' twice");
      seen[field] = true;
      if (field == 0) array.type = std::string(quoted());
      if (field == 1) array.column_major = boolean();
      if (field == 2) read_shape(array);
      if (accept('}')) break;
      expect(',');
    }
    skip_blanks();
    if (at_ != text_.size()) fail("goes on after its dict");
    if (!seen[0] || !seen[1] || !seen[2]) fail("lacks descr, fortran_order or shape");
  }

 private:
  [[noreturn]] void fail(const std::string& text) {
    throw InputError(name_ + ": the npy header " + text);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool accept(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) {
      fail("lacks a '" + std::string(1, wanted) + "' at its byte " + std::to_string(at_));
    }
  }

  std::string_view quoted() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail("has a string without an end");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  bool boolean() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("has a fortran_order that is neither True nor False");
  }

  void read_shape(Header& array) {
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      uint64_t extent = 0;
      const char* end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, extent);
      if (error != std::errc()) fail("has a shape that is not a tuple of 64-bit integers");
      at_ = static_cast<size_t>(next - text_.data());
      if (array.shape.size() == kMaxDimensions) fail("has a shape of over 32 dimensions");
      array.shape.push_back(extent);
      if (accept(')')) break;
      expect(',');
    }
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

struct Parts {
  Header header;
  std::span<const uint8_t> data;
};

/// Header and data of a whole file.
Parts split(std::span<const uint8_t> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t version_at = kMagic.size();
  const size_t length_at = version_at + 2;
  if (text.substr(0, version_at) != kMagic || text.size() < length_at) {
    throw InputError(name + ": is not an npy file");
  }
  const uint8_t version = bytes[version_at];
  if (version < 1 || version > 3) {
    throw InputError(name + ": npy version " + std::to_string(version) + " is not 1 to 3");
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t header_at = length_at + length_bytes;
  uint32_t header_bytes = 0;
  if (text.size() >= header_at) std::memcpy(&header_bytes, &bytes[length_at], length_bytes);
  if (text.size() < header_at || text.size() - header_at < header_bytes) {
    throw InputError(name + ": ends inside its npy header");
  }
  Parts parts;
  HeaderReader(text.substr(header_at, header_bytes), name).read(parts.header);
  parts.data = bytes.subspan(header_at + header_bytes);
  return parts;
}

void check_size(const std::vector<uint64_t>& shape, uint64_t item_bytes,
                std::span<const uint8_t> data, const std::string& name) {
  uint64_t wanted = item_bytes;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(wanted, extent, &wanted)) {
      throw InputError(name + ": the npy shape has more elements than 64 bits count");
    }
  }
  if (wanted != data.size()) {
    throw InputError(name + ": holds " + std::to_string(data.size()) +
                     " bytes of data; its npy header asks for " + std::to_string(wanted));
  }
}

Dtype dtype_of_type(std::string_view type) {
  struct Known {
    std::string_view type;
    Dtype dtype;
  };
  constexpr Known kKnown[] = {{"<f4", Dtype::F32},   {"<i4", Dtype::I32},    {"<i8", Dtype::I64},
                              {"|u1", Dtype::U8},    {"<u2", Dtype::Bf16},   {"<V2", Dtype::Bf16},
                              {"|V2", Dtype::Bf16},  {"|i1", Dtype::F8E4m3}, {"|V1", Dtype::F8E4m3},
                              {"<V1", Dtype::F8E4m3}};
  for (const Known& known : kKnown)
    if (known.type == type) return known.dtype;
  return Dtype::Other;
}

}  // namespace

int64_t NpyIntegers::at(uint64_t row, uint64_t column) const {
  const uint64_t index = column_major ? column * shape[0] + row : row * shape[1] + column;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * item_bytes, item_bytes);
  if (is_signed) {
    const uint32_t unused_bits = 64 - 8 * item_bytes;
    return static_cast<int64_t>(value << unused_bits) >> unused_bits;
  }
  constexpr uint64_t kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(value < kMax ? value : kMax);
}

NpyIntegers parse_npy(std::span<const uint8_t> bytes, const std::string& name) {
  const Parts parts = split(bytes, name);
  const std::string_view type = parts.header.type;
  const bool known = type.size() == 3 && (type[0] == '<' || (type[0] == '|' && type[2] == '1')) &&
                     (type[1] == 'i' || type[1] == 'u') &&
                     (type[2] == '1' || type[2] == '2' || type[2] == '4' || type[2] == '8');
  if (!known) {
    throw InputError(name + ": the npy header has dtype '" + one_line(type, 40) +
                     "', which is not a little-endian integer");
  }
  NpyIntegers array;
  array.shape = parts.header.shape;
  array.is_signed = type[1] == 'i';
  array.item_bytes = static_cast<uint32_t>(type[2] - '0');
  array.column_major = parts.header.column_major;
  array.bytes = parts.data;
  check_size(array.shape, array.item_bytes, array.bytes, name);
  return array;
}

TensorView parse_npy_tensor(std::span<const uint8_t> bytes, const std::string& name) {
  const Parts parts = split(bytes, name);
  TensorView tensor;
  tensor.dtype_text = parts.header.type;
  tensor.dtype = dtype_of_type(parts.header.type);
  tensor.shape = parts.header.shape;
  tensor.bytes = parts.data;
  if (parts.header.column_major && tensor.shape.size() > 1)
    throw InputError(name + ": fortran_order is True; tensors are read in row-major order");
  if (tensor.dtype != Dtype::Other)
    check_size(tensor.shape, dtype_bytes(tensor.dtype), tensor.bytes, name);
  return tensor;
}

}  // namespace moetwin
