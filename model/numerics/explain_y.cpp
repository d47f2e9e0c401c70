#include "model/numerics/explain_y.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/mapped_file.h"
#include "model/npy.h"
#include "model/tensor_files.h"

namespace moetwin::numerics {
namespace {

bool is_bf16_nan(uint16_t code) { return (code & 0x7FFF) > 0x7F80; }

std::vector<uint16_t> bf16_bits(const TensorView& tensor, const std::string& place, uint64_t tokens,
                                uint32_t hidden) {
  if (tensor.dtype != Dtype::Bf16 && tensor.dtype != Dtype::F32) {
    throw InputError(place + ": dtype " + one_line(tensor.dtype_text, 20) +
                     " is not BF16 (npy: u2, V2) or F32 (npy: f4)");
  }
  const std::vector<uint64_t> wanted = {tokens, hidden};
  if (tensor.shape != wanted) {
    throw InputError(place + ": shape " + shape_text(tensor.shape) + " is not " +
                     shape_text(wanted));
  }
  std::vector<uint16_t> y(tokens * hidden);
  if (tensor.dtype == Dtype::Bf16) {
    if (!y.empty()) std::memcpy(y.data(), tensor.bytes.data(), tensor.bytes.size());
    return y;
  }
  for (uint64_t i = 0; i < y.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));
    y[i] = encode_bf16(float_of_bits(bits));
    if (!is_nan_bits(bits) && (bits & 0xFFFF) != 0) {
      throw InputError(place + "[" + std::to_string(i / hidden) + "][" +
                       std::to_string(i % hidden) + "]: " + std::to_string(float_of_bits(bits)) +
                       " is no BF16 value, and y is compared bit for bit");
    }
  }
  return y;
}

}  // namespace

std::vector<uint16_t> read_y(const std::string& path, uint64_t tokens, uint32_t hidden) {
  const std::string shown = one_line(path);
  if (std::filesystem::path(path).extension() == ".npy") {
    const auto file = MappedFile::open(path);
    return bf16_bits(parse_npy_tensor(file->bytes(), shown), shown, tokens, hidden);
  }
  const TensorFiles file(path);
  return bf16_bits(file.tensor("y"), file.path() + ": tensor \"y\"", tokens, hidden);
}

uint64_t differing_elements(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  MOETWIN_CHECK(a.size() == b.size());
  uint64_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(is_bf16_nan(a[i]) && is_bf16_nan(b[i]))) ++differing;
  return differing;
}

std::vector<YComparison> compare_with_y(const std::vector<VariantResult>& results,
                                        const std::vector<uint16_t>& y) {
  std::vector<YComparison> comparisons;
  for (const VariantResult& result : results) {
    ErrorSums errors;
    MOETWIN_CHECK(result.y.size() == y.size());
    for (size_t i = 0; i < y.size(); ++i)
      errors.add(double{decode_bf16(y[i])}, double{decode_bf16(result.y[i])});
    comparisons.push_back({result.variant, differing_elements(result.y, y), errors.relative_rms()});
  }
  std::stable_sort(
      comparisons.begin(), comparisons.end(),
      [](const YComparison& a, const YComparison& b) { return a.differing < b.differing; });
  return comparisons;
}

}  // namespace moetwin::numerics
