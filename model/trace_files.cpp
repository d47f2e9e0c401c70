#include "model/trace_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/check.h"
#include "common/shape.h"
#include "model/csv.h"
#include "model/json_reader.h"
#include "model/mapped_file.h"
#include "model/named_json.h"
#include "model/npy.h"
#include "model/safetensors.h"

namespace moetwin {
namespace {

std::string id_limit(uint32_t experts) {
  return "-1 to " + std::to_string(experts - 1) + " (shape.experts is " + std::to_string(experts) +
         ")";
}

bool is_expert_id(int64_t id, uint32_t experts) {
  return id >= kMaskedExpert && id < int64_t{experts};
}

[[noreturn]] void refuse_topk(const std::string& place, uint64_t found, uint32_t topk) {
  refuse(place,
         std::to_string(found) + " expert ids a token; shape.topk is " + std::to_string(topk));
}

/// The whole field as a number; false if it is none or does not fit.
template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && next == end;
}

/// Columns PREFIX0 .. PREFIX(K-1). Absent altogether: empty. Throws if some are missing or there is
/// one beyond K.
std::vector<int64_t> numbered_columns(const CsvReader& csv, const std::string& name, char prefix,
                                      uint32_t topk) {
  std::vector<int64_t> columns(topk, -1);
  uint32_t found = 0;
  for (size_t i = 0; i < csv.header().size(); ++i) {
    const std::string_view title = csv.header()[i];
    uint32_t k = 0;
    if (title.size() < 2 || title[0] != prefix || !parse_number(title.substr(1), k)) continue;
    if (title.size() > 2 && title[1] == '0') continue;
    if (k >= topk) {
      refuse(name, "column " + one_line(title, 20) + " is beyond " + prefix +
                       std::to_string(topk - 1) + "; shape.topk is " + std::to_string(topk));
    }
    columns[k] = static_cast<int64_t>(i);
    ++found;
  }
  if (found == 0) return {};
  for (uint32_t k = 0; k < topk; ++k) {
    if (columns[k] < 0) {
      refuse(name, std::string("lacks column ") + prefix + std::to_string(k) + "; shape.topk is " +
                       std::to_string(topk));
    }
  }
  return columns;
}

/// The weight as binary32; false unless it is finite there.
bool to_weight(double value, float& weight) {
  weight = static_cast<float>(value);
  return std::isfinite(weight);
}

constexpr char kWeightLimit[] = " is not a number that is finite in 32 bits";

/// Takes the line of one token; `place` names it. False if it is of another type or layer.
bool take_route(const Json& line, const std::string& place, const TraceLimits& limits,
                Trace& trace) {
  JsonObject route(line, place);
  const Json* type = route.find("type");
  if (type == nullptr || !type->is_string()) refuse(place, "type is missing or not a string");
  if (type->get_ref<const std::string&>() != "route") return false;
  if (route.integer("layer", {0, std::numeric_limits<uint32_t>::max()}) != limits.layer) {
    return false;
  }
  route.integer_or("token_idx", IntegerLimit{}, 0);
  const Json* ids = route.find("topk_ids");
  if (ids == nullptr || !ids->is_array()) refuse(place, "topk_ids is missing or not an array");
  if (ids->size() != limits.topk) {
    refuse_topk(route.path_of("topk_ids"), ids->size(), limits.topk);
  }
  for (size_t k = 0; k < ids->size(); ++k) {
    int64_t id = 0;
    if (!try_integer((*ids)[k], {kMaskedExpert, int64_t{limits.experts} - 1}, id)) {
      refuse_value(index_path(route.path_of("topk_ids"), k), (*ids)[k], id_limit(limits.experts));
    }
    trace.topk_idx.push_back(static_cast<int32_t>(id));
  }

  const Json* weights = route.find("topk_weights");
  const bool expected = trace.rows == 0 ? weights != nullptr : !trace.topk_weights.empty();
  if (expected != (weights != nullptr)) {
    refuse(place, "topk_weights must be on every line or on none");
  }
  if (weights != nullptr) {
    if (!weights->is_array() || weights->size() != limits.topk) {
      refuse_value(route.path_of("topk_weights"), *weights,
                   "an array of shape.topk, " + std::to_string(limits.topk) + ", numbers");
    }
    for (size_t k = 0; k < weights->size(); ++k) {
      const Json& value = (*weights)[k];
      float weight = 0;
      if (!value.is_number() || !to_weight(value.get<double>(), weight)) {
        refuse(index_path(route.path_of("topk_weights"), k), show_value(value) + kWeightLimit);
      }
      trace.topk_weights.push_back(weight);
    }
  }
  ++trace.rows;
  return true;
}

/// Rows of a two-dimensional tensor of ids; the second extent must be K.
uint64_t check_id_shape(const std::vector<uint64_t>& shape, const std::string& place,
                        uint32_t topk) {
  if (shape.size() != 2) refuse(place, "shape " + shape_text(shape) + " is not [tokens, topk]");
  if (shape[1] != topk) refuse_topk(place, shape[1], topk);
  return shape[0];
}

int32_t checked_id(int64_t id, const std::string& place, uint64_t row, uint64_t k,
                   uint32_t experts) {
  if (!is_expert_id(id, experts)) {
    refuse(index_path(index_path(place, row), k),
           std::to_string(id) + " is not " + id_limit(experts));
  }
  return static_cast<int32_t>(id);
}

}  // namespace

Trace parse_trace_csv(std::string_view bytes, const std::string& name, const TraceLimits& limits) {
  CsvReader csv(bytes, name);
  const std::vector<int64_t> id_columns = numbered_columns(csv, name, 'e', limits.topk);
  const std::vector<int64_t> weight_columns = numbered_columns(csv, name, 'w', limits.topk);
  if (id_columns.empty()) {
    refuse(name, "lacks column e0; shape.topk is " + std::to_string(limits.topk));
  }
  Trace trace;
  while (csv.next()) {
    for (const int64_t column : id_columns) {
      int64_t id = 0;
      if (!parse_number(csv.field(column), id) || !is_expert_id(id, limits.experts)) {
        refuse(csv.place(column),
               "\"" + one_line(csv.field(column), 40) + "\" is not " + id_limit(limits.experts));
      }
      trace.topk_idx.push_back(static_cast<int32_t>(id));
    }
    for (const int64_t column : weight_columns) {
      double value = 0;
      float weight = 0;
      if (!parse_number(csv.field(column), value) || !to_weight(value, weight)) {
        refuse(csv.place(column), "\"" + one_line(csv.field(column), 40) + "\"" + kWeightLimit);
      }
      trace.topk_weights.push_back(weight);
    }
    ++trace.rows;
  }
  return trace;
}

Trace parse_trace_jsonl(std::string_view bytes, const std::string& name,
                        const TraceLimits& limits) {
  Trace trace;
  uint64_t line_number = 0;
  bool any = false;
  while (!bytes.empty()) {
    ++line_number;
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = name + " line " + std::to_string(line_number);
    if (line.size() > kMaxTraceLine) {
      refuse(place, std::to_string(line.size()) + " bytes; at most " +
                        std::to_string(kMaxTraceLine) + " are read");
    }
    any = take_route(parse_named_json(line, place), place, limits, trace) || any;
  }
  if (!any) {
    refuse(name, "has no line of type \"route\" and layer " + std::to_string(limits.layer));
  }
  return trace;
}

Trace parse_trace_npy(std::span<const uint8_t> bytes, const std::string& name,
                      const TraceLimits& limits) {
  const NpyIntegers array = parse_npy(bytes, name);
  Trace trace;
  trace.rows = check_id_shape(array.shape, name, limits.topk);
  trace.topk_idx.reserve(trace.rows * limits.topk);
  for (uint64_t row = 0; row < trace.rows; ++row) {
    for (uint32_t k = 0; k < limits.topk; ++k) {
      trace.topk_idx.push_back(checked_id(array.at(row, k), name, row, k, limits.experts));
    }
  }
  return trace;
}

Trace parse_trace_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                              const TraceLimits& limits) {
  const TensorMap tensors = parse_safetensors(bytes, name);
  const auto ids = tensors.find("topk.idx");
  if (ids == tensors.end()) refuse(name, "has no tensor \"topk.idx\"");
  const TensorView& idx = ids->second;
  if (idx.dtype != Dtype::I64 && idx.dtype != Dtype::I32) {
    refuse(name + ": topk.idx", "dtype " + one_line(idx.dtype_text, 20) + " is not I64 or I32");
  }
  Trace trace;
  trace.rows = check_id_shape(idx.shape, name + ": topk.idx", limits.topk);
  trace.topk_idx = expert_ids(idx, name + ": topk.idx", limits.experts);

  const auto weights = tensors.find("topk.weights");
  if (weights == tensors.end()) return trace;
  if (weights->second.dtype != Dtype::F32 || weights->second.shape != idx.shape) {
    refuse(name + ": topk.weights", one_line(weights->second.dtype_text, 20) + " " +
                                        shape_text(weights->second.shape) + " is not F32 " +
                                        shape_text(idx.shape));
  }
  trace.topk_weights.resize(trace.topk_idx.size());
  if (!trace.topk_weights.empty()) {
    std::memcpy(trace.topk_weights.data(), weights->second.bytes.data(),
                weights->second.bytes.size());
  }
  for (size_t i = 0; i < trace.topk_weights.size(); ++i) {
    if (std::isfinite(trace.topk_weights[i])) continue;
    refuse(name + ": topk.weights [" + std::to_string(i / limits.topk) + ", " +
               std::to_string(i % limits.topk) + "]",
           std::to_string(trace.topk_weights[i]) + kWeightLimit);
  }
  return trace;
}

std::vector<int32_t> expert_ids(const TensorView& tensor, const std::string& place,
                                uint32_t experts) {
  MOETWIN_CHECK(tensor.dtype == Dtype::I64 || tensor.dtype == Dtype::I32);
  const uint64_t item_bytes = dtype_bytes(tensor.dtype);
  const uint64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  std::vector<int32_t> ids(tensor.bytes.size() / item_bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint8_t* at = tensor.bytes.data() + i * item_bytes;
    int64_t id = 0;
    int32_t narrow = 0;
    if (tensor.dtype == Dtype::I64) {
      std::memcpy(&id, at, sizeof id);
    } else {
      std::memcpy(&narrow, at, sizeof narrow);
      id = narrow;
    }
    ids[i] = checked_id(id, place, i / columns, i % columns, experts);
  }
  return ids;
}

Trace read_trace(const std::string& path, const TraceLimits& limits) {
  const std::string name = one_line(path);
  const auto has_extension = [&path](std::string_view extension) {
    return path.size() > extension.size() &&
           std::string_view(path).substr(path.size() - extension.size()) == extension;
  };
  const bool is_csv = has_extension(".csv");
  const bool is_jsonl = has_extension(".jsonl");
  const bool is_npy = has_extension(".npy");
  if (!is_csv && !is_jsonl && !is_npy && !has_extension(".safetensors")) {
    refuse("routing.path", name + " does not end in .csv, .jsonl, .npy or .safetensors");
  }
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, "routing.path");
  if (is_csv) return parse_trace_csv(file->text(), name, limits);
  if (is_jsonl) return parse_trace_jsonl(file->text(), name, limits);
  if (is_npy) return parse_trace_npy(file->bytes(), name, limits);
  return parse_trace_safetensors(file->bytes(), name, limits);
}

std::vector<uint64_t> parse_expert_counts(std::string_view bytes, const std::string& name,
                                          const CountsSelection& selection, uint32_t experts) {
  CsvReader csv(bytes, name);
  constexpr std::array<const char*, 5> kTitles = {"model", "domain", "layer", "expert", "count"};
  std::array<int64_t, 5> columns{};
  for (size_t i = 0; i < kTitles.size(); ++i) {
    columns[i] = csv.column(kTitles[i]);
    if (columns[i] < 0) refuse(name, std::string("lacks column ") + kTitles[i]);
  }
  const auto [model, domain, layer, expert, count] = columns;
  const auto number = [&csv](int64_t column, uint64_t limit) {
    uint64_t value = 0;
    if (!parse_number(csv.field(column), value) || value > limit) {
      refuse(csv.place(column), "\"" + one_line(csv.field(column), 40) +
                                    "\" is not an integer from 0 to " + std::to_string(limit));
    }
    return value;
  };

  constexpr uint64_t kNotGiven = std::numeric_limits<uint64_t>::max();
  std::vector<uint64_t> counts(experts, kNotGiven);
  uint64_t given = 0;
  uint64_t total = 0;
  while (csv.next()) {
    const uint64_t row_layer = number(layer, std::numeric_limits<uint32_t>::max());
    const uint64_t id = number(expert, std::numeric_limits<uint32_t>::max());
    const uint64_t tokens = number(count, kMaxExpertCount);
    if (csv.field(model) != selection.model || csv.field(domain) != selection.domain ||
        row_layer != selection.layer) {
      continue;
    }
    if (id >= experts) {
      refuse(csv.place(expert),
             std::to_string(id) + " is not below shape.experts, " + std::to_string(experts));
    }
    if (counts[id] != kNotGiven) {
      refuse(csv.place(expert), std::to_string(id) + " is given twice for this selection");
    }
    counts[id] = tokens;
    total += tokens;
    ++given;
  }
  if (given != experts) {
    refuse(name, std::to_string(given) + " rows of model \"" + one_line(selection.model, 60) +
                     "\", domain \"" + one_line(selection.domain, 60) + "\", layer " +
                     std::to_string(selection.layer) + "; shape.experts is " +
                     std::to_string(experts));
  }
  if (total == 0) refuse(name, "the counts of this selection are all 0");
  return counts;
}

std::vector<uint64_t> read_expert_counts(const std::string& path, const CountsSelection& selection,
                                         uint32_t experts) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path, "routing.path");
  return parse_expert_counts(file->text(), one_line(path), selection, experts);
}

}  // namespace moetwin
