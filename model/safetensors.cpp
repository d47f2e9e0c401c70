#include "model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "common/check.h"
#include "model/json_reader.h"
#include "model/mapped_file.h"
#include "model/named_json.h"
#include "model/output_file.h"

namespace moetwin {

static_assert(std::endian::native == std::endian::little,
              "tensors are read and written as they lie in memory");

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr char kMetadataKey[] = "__metadata__";

struct DtypeRow {
  Dtype dtype;
  const char* name;
  uint64_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {Dtype::F8E4m3, "F8_E4M3", 1}, {Dtype::U8, "U8", 1},   {Dtype::Bf16, "BF16", 2},
    {Dtype::F32, "F32", 4},        {Dtype::I32, "I32", 4}, {Dtype::I64, "I64", 8},
    {Dtype::Other, "other", 0},
};

const DtypeRow& dtype_row(Dtype dtype) {
  const DtypeRow& row = kDtypes[static_cast<size_t>(dtype)];
  MOETWIN_CHECK(row.dtype == dtype);
  return row;
}

Dtype dtype_of_name(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype != Dtype::Other && name == row.name) return row.dtype;
  }
  return Dtype::Other;
}

/// How messages name a tensor of a file.
std::string tensor_label(const std::string& file, std::string_view tensor) {
  return file + ": tensor \"" + one_line(tensor, 60) + "\"";
}

/// False if the product does not fit 64 bits.
bool multiply(uint64_t& product, uint64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

/// Reads {"dtype", "shape", "data_offsets"} of one tensor; `data` is everything after the header.
TensorView read_entry(const Json& value, const std::string& path, std::span<const uint8_t> data) {
  JsonObject object(value, path);
  const Json* dtype = object.find("dtype");
  const Json* shape = object.find("shape");
  const Json* offsets = object.find("data_offsets");
  object.finish();
  if (dtype == nullptr || !dtype->is_string()) refuse(path, "dtype is missing or not a string");
  if (shape == nullptr || !shape->is_array()) refuse(path, "shape is missing or not an array");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2) {
    refuse(path, "data_offsets is missing or not an array of two");
  }

  TensorView tensor;
  tensor.dtype_text = dtype->get<std::string>();
  tensor.dtype = dtype_of_name(tensor.dtype_text);
  uint64_t wanted = dtype_bytes(tensor.dtype);
  bool fits = true;
  for (size_t i = 0; i < shape->size(); ++i) {
    const int64_t extent =
        read_integer((*shape)[i], index_path(path + ".shape", i), IntegerLimit{});
    tensor.shape.push_back(static_cast<uint64_t>(extent));
    fits = fits && multiply(wanted, tensor.shape.back());
  }
  if (!fits) refuse(path + ".shape", "has more elements than 64 bits count");

  const std::string offsets_path = path + ".data_offsets";
  const IntegerLimit range{0, static_cast<int64_t>(data.size())};
  const int64_t begin = read_integer((*offsets)[0], index_path(offsets_path, 0), range);
  const int64_t end = read_integer((*offsets)[1], index_path(offsets_path, 1), range);
  if (begin > end) refuse(offsets_path, std::to_string(begin) + " is after " + std::to_string(end));
  tensor.bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  if (tensor.dtype != Dtype::Other && tensor.bytes.size() != wanted) {
    refuse(offsets_path, std::to_string(tensor.bytes.size()) + " bytes; " + tensor.dtype_text +
                             " of shape " + shape_text(tensor.shape) + " takes " +
                             std::to_string(wanted));
  }
  return tensor;
}

/// The tensors must cover `data` once: in ascending order each begins where the last one ended.
void check_coverage(const TensorMap& tensors, std::span<const uint8_t> data,
                    const std::string& name) {
  struct Range {
    uint64_t begin;
    uint64_t end;
    const std::string* tensor;
  };
  std::vector<Range> ranges;
  ranges.reserve(tensors.size());
  for (const auto& entry : tensors) {
    const uint64_t begin = entry.second.bytes.empty()
                               ? 0
                               : static_cast<uint64_t>(entry.second.bytes.data() - data.data());
    if (!entry.second.bytes.empty())
      ranges.push_back({begin, begin + entry.second.bytes.size(), &entry.first});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uint64_t covered = 0;
  for (const Range& range : ranges) {
    if (range.begin != covered) {
      refuse(tensor_label(name, *range.tensor),
             "begins at byte " + std::to_string(range.begin) +
                 (range.begin < covered ? " inside another that ends at "
                                        : " and leaves a gap after byte ") +
                 std::to_string(covered));
    }
    covered = range.end;
  }
  if (covered != data.size()) {
    refuse(name, std::to_string(data.size()) + " bytes of data, but its tensors end at byte " +
                     std::to_string(covered));
  }
}

}  // namespace

const char* dtype_name(Dtype dtype) { return dtype_row(dtype).name; }

uint64_t dtype_bytes(Dtype dtype) { return dtype_row(dtype).bytes; }

std::string shape_text(const std::vector<uint64_t>& shape) {
  constexpr size_t kMaxShownExtents = 8;
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMaxShownExtents; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() > kMaxShownExtents ? ", ...]" : "]");
}

TensorMap parse_safetensors(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) {
    refuse(name, std::to_string(bytes.size()) + " bytes are too few for a safetensors file");
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const uint64_t limit = std::min<uint64_t>(bytes.size() - kLengthBytes, kMaxSafetensorsHeader);
  if (header_bytes > limit) {
    refuse(name, "header length " + std::to_string(header_bytes) + " is above " +
                     std::to_string(limit) + ", the limit for a file of " +
                     std::to_string(bytes.size()) + " bytes");
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const std::span<const uint8_t> data = bytes.subspan(kLengthBytes + header_bytes);
  const Json header = parse_named_json({text, static_cast<size_t>(header_bytes)}, name);
  if (!header.is_object()) refuse(name, "the header is not a JSON object");

  TensorMap tensors;
  for (auto entry = header.begin(); entry != header.end(); ++entry) {
    if (entry.key() == kMetadataKey) continue;
    tensors.emplace(entry.key(), read_entry(entry.value(), tensor_label(name, entry.key()), data));
  }
  check_coverage(tensors, data, name);
  return tensors;
}

TensorSource tensor_source(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                           std::span<const uint8_t> bytes) {
  return {std::move(name), dtype, std::move(shape), [bytes](const ByteSink& sink) { sink(bytes); }};
}

namespace {

uint64_t tensor_bytes(const TensorSource& tensor) {
  uint64_t bytes = dtype_bytes(tensor.dtype);
  MOETWIN_CHECK(bytes != 0);
  for (const uint64_t extent : tensor.shape) MOETWIN_CHECK(multiply(bytes, extent));
  return bytes;
}

/// The header's text, padded so that the data begins at a multiple of 8 bytes.
std::string header_text(const std::vector<const TensorSource*>& tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const TensorSource* tensor : tensors) {
    const uint64_t end = offset + tensor_bytes(*tensor);
    MOETWIN_CHECK(!header.contains(tensor->name) && tensor->name != kMetadataKey);
    header[tensor->name] = {{"dtype", dtype_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors) {
  std::vector<const TensorSource*> ordered;
  for (const TensorSource& tensor : tensors) ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const TensorSource* a, const TensorSource* b) {
                     return dtype_bytes(a->dtype) > dtype_bytes(b->dtype);
                   });
  const std::string header = header_text(ordered);
  const uint64_t header_bytes = header.size();

  OutputFile file(path);
  file.write(std::span(reinterpret_cast<const uint8_t*>(&header_bytes), kLengthBytes));
  file.write(header);
  for (const TensorSource* tensor : ordered) {
    uint64_t written = 0;
    tensor->produce([&file, &written](std::span<const uint8_t> bytes) {
      file.write(bytes);
      written += bytes.size();
    });
    MOETWIN_CHECK(written == tensor_bytes(*tensor));
  }
  file.finish();
}

}  // namespace moetwin
