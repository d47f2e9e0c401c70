#include "model/case.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "model/case_reader.h"
#include "model/data.h"
#include "model/json_reader.h"
#include "model/routing.h"

namespace moetwin {
namespace {

// Explicit routing is kept once a launch: 1000 launches of a 256 MiB file would not fit anywhere.
constexpr uint64_t kMaxExplicitSlots = uint64_t{1} << 26;

// The sections a launch may see patched, as they stand in the file or after its patch.
struct LaunchSections {
  const Json* shape;
  const Json* tokens;
  const Json* data;
  const Json* routing;
};

LaunchSpec read_launch(const LaunchSections& sections, const std::string& parent,
                       const std::string& base) {
  const auto at = [&parent](const char* key) { return key_path(parent, key); };
  if (sections.shape == nullptr) refuse(at("shape"), "missing; a case needs its six fields");
  LaunchSpec launch;
  launch.shape = read_shape(*sections.shape, at("shape"));
  launch.tokens = read_tokens(sections.tokens, at("tokens"), launch.shape);
  launch.data = read_data(sections.data, at("data"), base);
  launch.routing =
      read_routing(sections.routing, at("routing"), launch.shape, launch.tokens, launch.data, base);
  return launch;
}

uint64_t explicit_slots(const RoutingSpec& routing) {
  uint64_t slots = 0;
  for (const auto& rank : routing.topk_idx) {
    for (const auto& token : rank) slots += std::max<size_t>(token.size(), 1);
  }
  return slots;
}

void check_explicit_slots(uint64_t slots) {
  if (slots > kMaxExplicitSlots) {
    refuse("launches", "hold " + std::to_string(slots) +
                           " slots of explicit routing in all; the limit is " +
                           std::to_string(kMaxExplicitSlots));
  }
}

void check_patch_keys(const Json& patch, const std::string& path,
                      std::initializer_list<std::string_view> allowed) {
  if (!patch.is_object()) refuse_value(path, patch, "an object (a merge patch)");
  for (const auto& item : patch.items()) {
    if (std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    refuse(key_path(path, item.key()),
           "may not differ between launches; a patch may change tokens, routing, data.seed, "
           "shape.max_tokens_per_rank, shape.hidden and shape.intermediate");
  }
}

LaunchSpec read_patched_launch(const LaunchSections& sections, const Json& patch,
                               const std::string& path, const std::string& base) {
  check_patch_keys(patch, path, {"tokens", "routing", "data", "shape"});
  if (patch.contains("data")) check_patch_keys(patch["data"], key_path(path, "data"), {"seed"});
  if (patch.contains("shape")) {
    check_patch_keys(patch["shape"], key_path(path, "shape"),
                     {"max_tokens_per_rank", "hidden", "intermediate"});
  }
  Json patched = Json::object();
  // A section without a patch is used where it lies: an explicit routing may be large.
  const auto section = [&](const char* key, const Json* whole) -> const Json* {
    if (!patch.contains(key)) return whole;
    if (whole != nullptr) patched[key] = *whole;
    patched.merge_patch(Json{{key, patch[key]}});
    return patched.contains(key) ? &patched[key] : nullptr;
  };
  const LaunchSections merged{section("shape", sections.shape), section("tokens", sections.tokens),
                              section("data", sections.data), section("routing", sections.routing)};
  return read_launch(merged, path, base);
}

void read_launches(const Json& value, const LaunchSections& sections, const std::string& base,
                   Case& c) {
  const uint64_t slots = explicit_slots(c.routing);
  if (!value.is_array()) {
    if (!value.is_number()) {
      refuse_value("launches", value, "an integer from 1 to 1000 or an array of merge patches");
    }
    const int64_t count = read_integer(value, "launches", {1, kMaxLaunches});
    check_explicit_slots(slots * static_cast<uint64_t>(count));
    set_launches(c, static_cast<uint32_t>(count));
    return;
  }
  if (value.empty() || value.size() > kMaxLaunches) {
    refuse_value("launches", value, "an array of 1 to 1000 merge patches");
  }
  c.launches.clear();
  uint64_t total = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    c.launches.push_back(read_patched_launch(sections, value[i], index_path("launches", i), base));
    total += explicit_slots(c.launches.back().routing);
    check_explicit_slots(total);
  }
}

}  // namespace

Case parse_case(std::string_view json_text, const std::string& base_directory) {
  const Json document = parse_json(json_text, "case");
  JsonObject top(document, "");
  top.integer_or("format", {kCaseFormat, kCaseFormat}, kCaseFormat);
  const LaunchSections sections{top.find("shape"), top.find("tokens"), top.find("data"),
                                top.find("routing")};
  const Json* kernel = top.find("kernel");
  const Json* world = top.find("world");
  const Json* launches = top.find("launches");
  Case c;
  c.schedule = top.text_or("schedule", kMaxScheduleBytes, c.schedule);
  c.plant = top.text_or("plant", kMaxTextBytes, "");
  top.finish();

  LaunchSpec whole = read_launch(sections, "", base_directory);
  c.shape = whole.shape;
  c.tokens = std::move(whole.tokens);
  c.routing = std::move(whole.routing);
  c.data = std::move(whole.data);
  const KernelSection kernel_section = read_kernel(kernel, "kernel");
  c.kernel = kernel_section.options;
  c.clamp = kernel_section.clamp;
  c.world = read_world(world, "world", c.shape, c.kernel);
  if (c.schedule.compare(0, kReplayFile.size(), kReplayFile) == 0) {
    c.schedule = std::string(kReplayFile) +
                 resolve_path(base_directory, c.schedule.substr(kReplayFile.size()));
  }
  read_launches(launches == nullptr ? Json(1) : *launches, sections, base_directory, c);
  return c;
}

Case load_case(const std::string& path) {
  const std::string text = read_json_file(path, "case");
  return parse_case(text, std::filesystem::path(path).parent_path().string());
}

void set_launches(Case& c, uint32_t count) {
  c.launches.assign(count, LaunchSpec{c.shape, c.tokens, c.routing, c.data});
  for (uint32_t i = 0; i < count; ++i) {
    c.launches[i].routing.seed += i;
    c.launches[i].data.seed += i;
  }
}

std::shared_ptr<const WeightSource> WeightCache::weights(const DataSpec& data, const Shape& shape) {
  Shape key = shape;
  key.max_tokens_per_rank = 1;
  for (const Entry& entry : entries_) {
    if (entry.data == data && entry.shape == key) return entry.source;
  }
  entries_.push_back({data, key, maker_ ? maker_(data, shape) : make_weights(data, shape)});
  return entries_.back().source;
}

Problem make_routed_problem(const Case& c, size_t launch) {
  MOETWIN_CHECK(launch < c.launches.size());
  const LaunchSpec& spec = c.launches[launch];
  Problem problem;
  problem.shape = spec.shape;
  problem.clamp = c.clamp;
  make_routing(spec.routing, spec.shape, spec.tokens, problem.ranks);
  return problem;
}

Problem make_problem(const Case& c, size_t launch, WeightCache& cache) {
  Problem problem = make_routed_problem(c, launch);
  const LaunchSpec& spec = c.launches[launch];
  make_activations(spec.data, spec.shape, spec.tokens, problem.ranks);
  problem.weights = cache.weights(c.data, spec.shape);
  return problem;
}

}  // namespace moetwin
