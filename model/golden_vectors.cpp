#include "model/golden_vectors.h"

#include <cstring>
#include <memory>
#include <span>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/mapped_file.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

constexpr uint32_t kRows = 64;
constexpr uint32_t kColumns = 8;
constexpr uint32_t kOutputs = kRows * kColumns;
constexpr size_t kNameBytes = 24;
constexpr uint32_t kMaxSteps = 1024;
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

/// Takes pieces off the front of a file.
class Reader {
 public:
  Reader(const std::string& path, std::span<const uint8_t> bytes)
      : path_(path), all_(bytes), rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  std::span<const uint8_t> take(size_t bytes) {
    if (bytes > rest_.size()) {
      fail("ends at byte " + std::to_string(all_.size()) + ", inside a block; " +
           std::to_string(bytes - rest_.size()) + " more are needed");
    }
    const std::span<const uint8_t> piece = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return piece;
  }

  /// A header word that must lie in [low, high].
  uint32_t take_field(const char* name, uint32_t low, uint32_t high) {
    uint32_t value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    if (value < low || value > high) {
      fail(std::string(name) + " = " + std::to_string(value) + ", must be " + std::to_string(low) +
           (low == high ? "" : " to " + std::to_string(high)));
    }
    return value;
  }

  std::vector<float> take_floats(size_t count) {
    std::vector<float> values(count);
    std::memcpy(values.data(), take(count * sizeof(float)).data(), count * sizeof(float));
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError("golden vectors: " + path_ + ": " + what);
  }

  const std::string& path_;
  std::span<const uint8_t> all_;
  std::span<const uint8_t> rest_;
};

struct Block {
  std::string name;
  uint32_t steps = 0;
  std::span<const uint8_t> a;  ///< [64, 32 * steps]
  std::span<const uint8_t> b;  ///< [8, 32 * steps]
  std::vector<float> c;        ///< [64, 8]
  std::vector<float> d;
};

Block take_block(Reader& reader) {
  Block block;
  const std::span<const uint8_t> name = reader.take(kNameBytes);
  for (const uint8_t byte : name) {
    if (byte == 0) break;
    block.name += byte >= 0x20 && byte < 0x7F ? static_cast<char>(byte) : '?';
  }
  block.steps = reader.take_field("steps", 1, kMaxSteps);
  reader.take_field("rows", kRows, kRows);
  reader.take_field("columns", kColumns, kColumns);
  reader.take_field("reserved word", 0, 0);
  block.a = reader.take(size_t{kRows} * kTensorCoreK * block.steps);
  block.b = reader.take(size_t{kColumns} * kTensorCoreK * block.steps);
  block.c = reader.take_floats(kOutputs);
  block.d = reader.take_floats(kOutputs);
  return block;
}

void compare(const Block& block, GoldenVectorReport& report) {
  const size_t pitch = size_t{kTensorCoreK} * block.steps;
  std::vector<float> tile = block.c;
  tile_steps_from(block.a.data(), pitch, kRows, block.b.data(), pitch, kColumns, block.steps,
                  tile.data());
  for (uint32_t at = 0; at < kOutputs; ++at) {
    const uint32_t row = at / kColumns;
    const uint32_t column = at % kColumns;
    float value = block.c[at];
    for (size_t k = 0; k < pitch; k += kTensorCoreK) {
      value = tensor_core_step(&block.a[row * pitch + k], &block.b[column * pitch + k], value);
    }
    const GoldenVectorDifference outcome{block.name,
                                         row,
                                         column,
                                         bits_of_float(block.d[at]),
                                         bits_of_float(value),
                                         bits_of_float(tile[at])};
    ++report.total;
    if (outcome.definition == outcome.recorded && outcome.tile == outcome.recorded) continue;
    ++report.differences;
    if (!report.first) report.first = outcome;
  }
}

}  // namespace

GoldenVectorReport check_golden_vectors(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, "golden vectors");
  const std::span<const uint8_t> bytes = file->bytes();
  if (bytes.size() > kMaxFileBytes) {
    throw InputError("golden vectors: " + one_line(path) + ": " + std::to_string(bytes.size()) +
                     " bytes, at most 256 MiB are allowed");
  }
  Reader reader(path, bytes);
  if (reader.at_end()) throw InputError("golden vectors: " + path + ": holds no block");
  GoldenVectorReport report;
  while (!reader.at_end()) {
    const Block block = take_block(reader);
    compare(block, report);
    report.blocks.push_back(block.name);
  }
  return report;
}

}  // namespace moetwin
