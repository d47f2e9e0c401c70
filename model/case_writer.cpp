// Writes cases: the inverse of case_reader.cpp, leaving out what is default. It owns the layout of
// a written file, one section a line.
#include "model/case_writer.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>

#include "common/check.h"
#include "model/case.h"
#include "model/case_reader.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

/// Resolved paths become relative again where the file's directory holds what they name.
class PathWriter {
 public:
  explicit PathWriter(const std::string& base_directory)
      : base_(resolve_path("", base_directory.empty() ? "." : base_directory)) {}

  std::string operator()(const std::string& path) const {
    const std::filesystem::path relative = std::filesystem::path(path).lexically_relative(base_);
    const bool below = !relative.empty() && *relative.begin() != "..";
    return below ? relative.string() : path;
  }

 private:
  std::filesystem::path base_;
};

/// Adds `key` where the value is not the default.
template <typename Value>
void put(OrderedJson& object, const char* key, const Value& value, const Value& standard) {
  if (value != standard) object[key] = value;
}

template <typename Enum, size_t kCount>
const char* name_of(const char* const (&names)[kCount], Enum value) {
  MOETWIN_CHECK(static_cast<size_t>(value) < kCount);
  return names[static_cast<size_t>(value)];
}

// The shortest decimal that reads back as the same float: 0.1, not 0.10000000149011612.
double readable(float value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  double shortest = 0;
  std::from_chars(text, end.ptr, shortest);
  return static_cast<float>(shortest) == value ? shortest : double{value};
}

OrderedJson data_json(const DataSpec& spec, const PathWriter& paths) {
  OrderedJson json = OrderedJson::object();
  const DataSpec standard;
  if (spec == standard) return json;
  json["kind"] = name_of(kDataKindNames, spec.kind);
  put(json, "seed", spec.seed, standard.seed);
  put(json, "nan", spec.nan, standard.nan);
  if (!spec.path.empty()) json["path"] = paths(spec.path);
  return json;
}

OrderedJson routing_json(const RoutingSpec& spec, const PathWriter& paths) {
  OrderedJson json = OrderedJson::object();
  const RoutingSpec standard;
  if (spec == standard) return json;
  json["kind"] = name_of(kRoutingKindNames, spec.kind);
  put(json, "alpha", spec.alpha, standard.alpha);
  put(json, "expert", spec.expert, standard.expert);
  put(json, "rank", spec.rank, standard.rank);
  put(json, "share", spec.share, default_share(spec.kind));
  put(json, "groups", spec.groups, standard.groups);
  put(json, "topk_groups", spec.topk_groups, standard.topk_groups);
  put(json, "offset", spec.offset, standard.offset);
  // The reader gives kind `file` the data file's path.
  if (!spec.path.empty() && spec.kind != RoutingKind::File) json["path"] = paths(spec.path);
  put(json, "model", spec.model, standard.model);
  put(json, "domain", spec.domain, standard.domain);
  if (spec.layer != 0 || spec.kind == RoutingKind::Counts) json["layer"] = spec.layer;
  put(json, "masked", spec.masked, standard.masked);
  put(json, "duplicates", spec.duplicates, standard.duplicates);
  if (spec.weights != standard.weights) {
    json["weights"] = name_of(kRoutingWeightsNames, spec.weights);
  }
  put(json, "seed", spec.seed, standard.seed);
  put(json, "topk_idx", spec.topk_idx, standard.topk_idx);
  put(json, "topk_weights", spec.topk_weights, standard.topk_weights);
  return json;
}

OrderedJson kernel_json(const Case& c) {
  OrderedJson json = OrderedJson::object();
  const KernelOptions standard;
  put(json, "block_m", c.kernel.block_m, standard.block_m);
  put(json, "block_n", c.kernel.block_n, standard.block_n);
  put(json, "sms_per_rank", c.kernel.sms_per_rank, standard.sms_per_rank);
  put(json, "stages", c.kernel.stages, standard.stages);
  if (c.kernel.scheduler != standard.scheduler) {
    json["scheduler"] = name_of(kSchedulerNames, c.kernel.scheduler);
  }
  put(json, "ring_blocks", c.kernel.ring_blocks, standard.ring_blocks);
  put(json, "experts_per_wave", c.kernel.experts_per_wave, standard.experts_per_wave);
  if (std::isfinite(c.clamp)) json["clamp"] = readable(c.clamp);
  return json;
}

OrderedJson world_json(const World& world) {
  OrderedJson json = OrderedJson::object();
  const World standard;
  if (world.landing != standard.landing) json["landing"] = name_of(kLandingNames, world.landing);
  put(json, "poison", uint32_t{world.poison}, uint32_t{standard.poison});
  if (world.late_rank.has_value()) json["late_rank"] = *world.late_rank;
  put(json, "late_steps", world.late_steps, standard.late_steps);
  for (const HeldSm& held : world.held_sms) {
    json["held_sms"].push_back(OrderedJson::array({held.rank, held.sm}));
  }
  if (world.padding != standard.padding) json["padding"] = name_of(kPaddingNames, world.padding);
  return json;
}

// The merge patch that turns one flat object into another: values differ or are taken out by null.
OrderedJson flat_patch(const OrderedJson& from, const OrderedJson& to) {
  OrderedJson patch = OrderedJson::object();
  for (const auto& item : to.items()) {
    if (!from.contains(item.key()) || from[item.key()] != item.value()) {
      patch[item.key()] = item.value();
    }
  }
  for (const auto& item : from.items()) {
    if (!to.contains(item.key())) patch[item.key()] = nullptr;
  }
  return patch;
}

std::vector<uint32_t> full_tokens(const Shape& shape) {
  return std::vector<uint32_t>(shape.ranks, shape.max_tokens_per_rank);
}

OrderedJson launch_patch(const Case& c, const LaunchSpec& launch, const PathWriter& paths) {
  DataSpec same_data = launch.data;
  same_data.seed = c.data.seed;
  MOETWIN_CHECK(same_data == c.data);
  OrderedJson patch = OrderedJson::object();
  const OrderedJson shape = flat_patch(shape_json(c.shape), shape_json(launch.shape));
  if (!shape.empty()) patch["shape"] = shape;
  const bool writes_tokens = c.tokens != full_tokens(c.shape);
  if (launch.tokens != (writes_tokens ? c.tokens : full_tokens(launch.shape))) {
    patch["tokens"] = launch.tokens;
  }
  if (launch.routing != c.routing) {
    patch["routing"] =
        flat_patch(routing_json(c.routing, paths), routing_json(launch.routing, paths));
  }
  if (launch.data.seed != c.data.seed) patch["data"]["seed"] = launch.data.seed;
  return patch;
}

OrderedJson launches_json(const Case& c, const PathWriter& paths) {
  Case counted = c;
  set_launches(counted, static_cast<uint32_t>(c.launches.size()));
  if (counted.launches == c.launches) return c.launches.size();
  OrderedJson patches = OrderedJson::array();
  for (const LaunchSpec& launch : c.launches) patches.push_back(launch_patch(c, launch, paths));
  return patches;
}

std::string schedule_text(const std::string& schedule, const PathWriter& paths) {
  if (schedule.compare(0, kReplayFile.size(), kReplayFile) != 0) return schedule;
  return std::string(kReplayFile) + paths(schedule.substr(kReplayFile.size()));
}

}  // namespace

OrderedJson shape_json(const Shape& s) {
  return {{"ranks", s.ranks},
          {"experts", s.experts},
          {"topk", s.topk},
          {"hidden", s.hidden},
          {"intermediate", s.intermediate},
          {"max_tokens_per_rank", s.max_tokens_per_rank}};
}

std::string layout_case(const OrderedJson& document) {
  std::string text;
  for (const auto& item : document.items()) {
    text += text.empty() ? "{\n" : ",\n";
    try {
      text += "  " + OrderedJson(item.key()).dump() + ": " + item.value().dump();
    } catch (const OrderedJson::type_error&) {
      refuse(key_path("", item.key()),
             "holds bytes that are not UTF-8 and cannot stand in a case file");
    }
  }
  return text.empty() ? "{}\n" : text + "\n}\n";
}

std::string case_to_json(const Case& c, const std::string& base_directory) {
  const PathWriter paths(base_directory);
  OrderedJson document = {{"format", kCaseFormat}, {"shape", shape_json(c.shape)}};
  put(document, "tokens", c.tokens, full_tokens(c.shape));
  const auto put_section = [&document](const char* key, const OrderedJson& section) {
    if (!section.empty()) document[key] = section;
  };
  put_section("routing", routing_json(c.routing, paths));
  put_section("data", data_json(c.data, paths));
  put_section("kernel", kernel_json(c));
  put(document, "schedule", schedule_text(c.schedule, paths), std::string("fifo"));
  put(document, "launches", launches_json(c, paths), OrderedJson(1));
  put_section("world", world_json(c.world));
  put(document, "plant", c.plant, std::string());
  return layout_case(document);
}

void save_case(const Case& c, const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  write_file(path, case_to_json(c, directory), "case");
}

}  // namespace moetwin
