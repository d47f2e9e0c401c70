#include "model/case_reader.h"

#include <cfloat>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

namespace moetwin {
namespace {

const Json& or_empty(const Json* value) {
  static const Json empty = Json::object();
  return value == nullptr ? empty : *value;
}

constexpr IntegerLimit up_to(uint64_t high) { return {0, static_cast<int64_t>(high)}; }

std::string read_path(JsonObject& object, const std::string& base) {
  const std::string path = object.text_or("path", kMaxTextBytes, "");
  return path.empty() ? path : resolve_path(base, path);
}

void require(bool given, const JsonObject& object, const char* key, const std::string& kind) {
  if (!given) refuse(object.path_of(key), "missing; kind \"" + kind + "\" needs it");
}

// Reads [rank][token][k] of any element type. Lengths are held against the case's tokens only where
// the kind uses them: a merge patch may leave an array of another size behind.
template <typename Element, typename ReadElement>
std::vector<std::vector<std::vector<Element>>> read_slots(const Json& value,
                                                          const std::string& path,
                                                          const Shape& shape,
                                                          const std::vector<uint32_t>* tokens,
                                                          const ReadElement& read_element) {
  const auto check_length = [&](const Json& array, const std::string& at, uint64_t wanted,
                                const char* field) {
    if (tokens != nullptr && array.size() != wanted) {
      refuse(at, std::to_string(array.size()) + " entries; " + field + " asks for " +
                     std::to_string(wanted));
    }
  };
  std::vector<std::vector<std::vector<Element>>> slots;
  read_array(value, path, "an array [rank][token][k]");
  check_length(value, path, shape.ranks, "shape.ranks");
  for (size_t rank = 0; rank < value.size(); ++rank) {
    const std::string rank_path = index_path(path, rank);
    const Json& rows = read_array(value[rank], rank_path, "an array [token][k]");
    if (tokens != nullptr) check_length(rows, rank_path, (*tokens)[rank], "tokens");
    std::vector<std::vector<Element>>& rank_slots = slots.emplace_back();
    rank_slots.reserve(rows.size());
    for (size_t token = 0; token < rows.size(); ++token) {
      const Json& row = rows[token];
      // Paths of rows and slots are made only for errors: a file may hold millions of them.
      if (!row.is_array() || (tokens != nullptr && row.size() != shape.topk)) {
        const std::string row_path = index_path(rank_path, token);
        read_array(row, row_path, "an array [k]");
        check_length(row, row_path, shape.topk, "shape.topk");
      }
      std::vector<Element>& token_slots = rank_slots.emplace_back();
      token_slots.reserve(row.size());
      for (size_t k = 0; k < row.size(); ++k) {
        Element element{};
        if (!read_element(row[k], element)) {
          const std::string at = index_path(index_path(rank_path, token), k);
          refuse_value(at, row[k], read_element.limit.text());
        }
        token_slots.push_back(element);
      }
    }
  }
  return slots;
}

struct ReadExpertId {
  IntegerLimit limit;
  bool operator()(const Json& value, int64_t& out) const { return try_integer(value, limit, out); }
};

struct ReadWeight {
  NumberLimit limit;
  bool operator()(const Json& value, double& out) const { return try_number(value, limit, out); }
};

void read_group_fields(JsonObject& object, const Shape& shape, RoutingSpec& spec) {
  spec.groups = static_cast<uint32_t>(object.integer_or("groups", {1, shape.experts}, 0));
  const uint32_t groups = spec.groups == 0 ? shape.ranks : spec.groups;
  if (shape.experts % groups != 0) {
    refuse(object.path_of("groups"), std::to_string(groups) +
                                         " is not a divisor of shape.experts, " +
                                         std::to_string(shape.experts));
  }
  spec.topk_groups = static_cast<uint32_t>(object.integer_or("topk_groups", {1, groups}, 0));
}

void read_explicit_fields(JsonObject& object, const Shape& shape,
                          const std::vector<uint32_t>& tokens, RoutingSpec& spec) {
  const bool used = spec.kind == RoutingKind::Explicit;
  const std::vector<uint32_t>* lengths = used ? &tokens : nullptr;
  const Json* idx = object.find("topk_idx");
  const Json* weights = object.find("topk_weights");
  require(!used || idx != nullptr, object, "topk_idx", "explicit");
  if (idx != nullptr) {
    const ReadExpertId read{{kMaskedExpert, int64_t{shape.experts} - 1}};
    spec.topk_idx = read_slots<int64_t>(*idx, object.path_of("topk_idx"), shape, lengths, read);
  }
  if (weights != nullptr) {
    const ReadWeight read{{-double{FLT_MAX}, double{FLT_MAX}}};
    spec.topk_weights =
        read_slots<double>(*weights, object.path_of("topk_weights"), shape, lengths, read);
  }
}

}  // namespace

std::string resolve_path(const std::string& base, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path joined = fs::path(base) / fs::path(path);
  const fs::path absolute = joined.is_absolute() ? joined : fs::current_path(ignored) / joined;
  return absolute.lexically_normal().string();
}

Shape read_shape(const Json& value, const std::string& path) {
  JsonObject object(value, path);
  const auto field = [&object](const char* key, const IntegerLimit& limit) {
    return static_cast<uint32_t>(object.integer(key, limit));
  };
  Shape shape;
  shape.ranks = field("ranks", {1, kMaxRanks});
  shape.experts = field("experts", {1, kMaxExperts});
  shape.topk = field("topk", {1, kMaxTopk});
  shape.hidden = field("hidden", {kScaleBlock, kMaxHidden, kScaleBlock});
  shape.intermediate = field("intermediate", {kScaleBlock, kMaxIntermediate, kScaleBlock});
  shape.max_tokens_per_rank = field("max_tokens_per_rank", {1, kMaxTokensPerRank});
  object.finish();
  if (const ShapeError error = validate(shape)) {
    refuse(error.field, std::to_string(error.value) + " is not " + error.limit);
  }
  return shape;
}

std::vector<uint32_t> read_tokens(const Json* value, const std::string& path, const Shape& shape) {
  std::vector<uint32_t> tokens(shape.ranks, shape.max_tokens_per_rank);
  if (value == nullptr) return tokens;
  read_array(*value, path, "an array, one count a rank");
  if (value->size() != shape.ranks) {
    refuse(path, std::to_string(value->size()) + " entries; shape.ranks asks for " +
                     std::to_string(shape.ranks));
  }
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    tokens[rank] = static_cast<uint32_t>(
        read_integer((*value)[rank], index_path(path, rank), up_to(shape.max_tokens_per_rank)));
  }
  return tokens;
}

DataSpec read_data(const Json* value, const std::string& path, const std::string& base) {
  JsonObject object(or_empty(value), path);
  DataSpec spec;
  spec.kind = object.choice_or("kind", kDataKindNames, spec.kind);
  spec.seed = static_cast<uint64_t>(object.integer_or("seed", IntegerLimit{}, 1));
  spec.nan = object.flag_or("nan", spec.nan);
  spec.path = read_path(object, base);
  object.finish();
  require(spec.kind != DataKind::File || !spec.path.empty(), object, "path", "file");
  return spec;
}

RoutingSpec read_routing(const Json* value, const std::string& path, const Shape& shape,
                         const std::vector<uint32_t>& tokens, const DataSpec& data,
                         const std::string& base) {
  JsonObject object(or_empty(value), path);
  RoutingSpec spec;
  spec.kind = object.choice_or("kind", kRoutingKindNames, spec.kind);
  spec.seed = static_cast<uint64_t>(object.integer_or("seed", IntegerLimit{}, 1));
  spec.masked = object.number_or("masked", {0, 1}, spec.masked);
  spec.duplicates = object.flag_or("duplicates", spec.duplicates);
  spec.weights = object.choice_or("weights", kRoutingWeightsNames, spec.weights);
  spec.alpha = object.number_or("alpha", {0, 10}, spec.alpha);
  spec.expert = static_cast<uint32_t>(object.integer_or("expert", up_to(shape.experts - 1), 0));
  spec.rank = static_cast<uint32_t>(object.integer_or("rank", up_to(shape.ranks - 1), 0));
  spec.share = object.number_or("share", {0, 1}, default_share(spec.kind));
  read_group_fields(object, shape, spec);
  spec.offset = static_cast<uint64_t>(object.integer_or("offset", IntegerLimit{}, 0));
  read_explicit_fields(object, shape, tokens, spec);
  spec.path = read_path(object, base);
  spec.model = object.text_or("model", kMaxTextBytes, "");
  spec.domain = object.text_or("domain", kMaxTextBytes, "");
  const bool has_layer = object.find("layer") != nullptr;
  spec.layer = static_cast<uint32_t>(object.integer_or("layer", up_to(UINT32_MAX), 0));
  object.finish();

  if (spec.kind == RoutingKind::Trace) require(!spec.path.empty(), object, "path", "trace");
  if (spec.kind == RoutingKind::Counts) {
    require(!spec.path.empty(), object, "path", "counts");
    require(!spec.model.empty(), object, "model", "counts");
    require(!spec.domain.empty(), object, "domain", "counts");
    require(has_layer, object, "layer", "counts");
  }
  if (spec.kind == RoutingKind::File) {
    if (data.kind != DataKind::File) {
      refuse(object.path_of("kind"),
             "\"file\" is read from the data file; data.kind must be \"file\"");
    }
    spec.path = data.path;
  }
  return spec;
}

KernelSection read_kernel(const Json* value, const std::string& path) {
  JsonObject object(or_empty(value), path);
  KernelOptions options;
  const auto field = [&object](const char* key, const IntegerLimit& limit, uint32_t fallback) {
    return static_cast<uint32_t>(object.integer_or(key, limit, fallback));
  };
  options.block_m = field("block_m", {64, 128, 64}, options.block_m);
  options.block_n = field("block_n", {128, 256, 128}, options.block_n);
  options.sms_per_rank = field("sms_per_rank", {1, kMaxSmsPerRank}, options.sms_per_rank);
  options.stages = field("stages", {1, kMaxStages}, options.stages);
  options.scheduler = object.choice_or("scheduler", kSchedulerNames, options.scheduler);
  options.ring_blocks = field("ring_blocks", {1, kMaxRingBlocks}, 0);
  options.experts_per_wave = field("experts_per_wave", {1, kMaxExperts}, 0);
  float clamp = std::numeric_limits<float>::infinity();
  if (const Json* limit = object.find("clamp")) {
    double wanted = 0;
    const bool is_number = try_number(*limit, {0, double{FLT_MAX}}, wanted);
    clamp = static_cast<float>(wanted);
    if (!is_number || !(clamp > 0)) {
      refuse_value(object.path_of("clamp"), *limit, "a number above 0, finite in 32 bits");
    }
  }
  object.finish();
  return {options, clamp};
}

World read_world(const Json* value, const std::string& path, const Shape& shape,
                 const KernelOptions& kernel) {
  JsonObject object(or_empty(value), path);
  World world;
  world.landing = object.choice_or("landing", kLandingNames, world.landing);
  world.poison = static_cast<uint8_t>(object.integer_or("poison", up_to(255), world.poison));
  const IntegerLimit rank_limit = up_to(shape.ranks - 1);
  if (object.find("late_rank") != nullptr) {
    world.late_rank = static_cast<uint32_t>(object.integer("late_rank", rank_limit));
  }
  world.late_steps = static_cast<uint64_t>(object.integer_or(
      "late_steps", up_to(kMaxLateSteps), static_cast<int64_t>(world.late_steps)));
  world.padding = object.choice_or("padding", kPaddingNames, world.padding);
  const Json* held = object.find("held_sms");
  object.finish();
  if (held == nullptr) return world;

  const std::string held_path = object.path_of("held_sms");
  read_array(*held, held_path, "an array of [rank, sm]");
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (size_t i = 0; i < held->size(); ++i) {
    const std::string at = index_path(held_path, i);
    const Json& pair = (*held)[i];
    if (!pair.is_array() || pair.size() != 2) refuse_value(at, pair, "a pair [rank, sm]");
    const auto rank = static_cast<uint32_t>(read_integer(pair[0], index_path(at, 0), rank_limit));
    const auto sm = static_cast<uint32_t>(
        read_integer(pair[1], index_path(at, 1), up_to(kernel.sms_per_rank - 1)));
    if (!seen.emplace(rank, sm).second) refuse(at, "given twice; an SM may be held once");
    world.held_sms.push_back({rank, sm});
  }
  return world;
}

}  // namespace moetwin
