// The .safetensors format: named tensors in one file, read from its bytes and written in one pass.
// It checks everything the bytes claim before trusting it and knows nothing of what the tensors
// mean. Numbers in the file are little endian and need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetwin {

/// Element types that moetwin uses; a file may hold others, which are refused where they are used.
enum class Dtype : uint8_t { F8E4m3, U8, Bf16, F32, I32, I64, Other };

/// The name in the file ("F8_E4M3", ...); "other" for Dtype::Other.
const char* dtype_name(Dtype dtype);
/// Bytes of one element; 0 for Dtype::Other.
uint64_t dtype_bytes(Dtype dtype);

/// "[8192, 8]", for messages.
std::string shape_text(const std::vector<uint64_t>& shape);

/// One tensor of a file. `bytes` lives as long as what it was read from.
struct TensorView {
  Dtype dtype = Dtype::Other;
  std::string dtype_text;       ///< as the file spells it
  std::vector<uint64_t> shape;  ///< row-major
  std::span<const uint8_t> bytes;
};

/// Tensors by name.
using TensorMap = std::map<std::string, TensorView, std::less<>>;

constexpr uint64_t kMaxSafetensorsHeader = uint64_t{8} << 20;

/// Parses a whole file's bytes; the views point into them. `name` stands for the file in messages.
/// Throws InputError for a header that is longer than the file or kMaxSafetensorsHeader, is not the
/// JSON it should be or gives a name twice; for a shape that overflows or does not match its byte
/// range; for ranges that overlap, leave a gap or do not end with the file.
TensorMap parse_safetensors(std::span<const uint8_t> bytes, const std::string& name);

/// Takes bytes of a tensor in order; called as often as the producer likes.
using ByteSink = std::function<void(std::span<const uint8_t>)>;

/// One tensor to write. `produce` is called once and must hand over exactly the tensor's bytes, so
/// that a tensor larger than memory can be made piece by piece.
struct TensorSource {
  std::string name;
  Dtype dtype = Dtype::U8;
  std::vector<uint64_t> shape;
  std::function<void(const ByteSink&)> produce;
};

/// A source over bytes that outlive it.
TensorSource tensor_source(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                           std::span<const uint8_t> bytes);
/// A source over the elements of a vector that outlives it.
template <class T>
TensorSource tensor_source(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                           const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return tensor_source(std::move(name), dtype, std::move(shape),
                       std::span<const uint8_t>(bytes, values.size() * sizeof(T)));
}

/// Writes the tensors, largest element first so that each is aligned, otherwise in the given order.
/// The file appears under `path` complete or not at all. Throws InputError if it cannot be written;
/// names must differ and no type may be Other.
void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors);

}  // namespace moetwin
