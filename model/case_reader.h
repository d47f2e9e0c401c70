// The sections of a case file, one function each, from checked JSON to the case's types. It owns
// the names, types, ranges and defaults of all fields (DESIGN section 7); how sections make up a
// case and its launches is case.cpp. Internal to model/: only its .cpp files and tests include it.
//
// All throw InputError with the path of the field, the value and the limit. Fields that the chosen
// kind does not use are checked all the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/json_reader.h"

namespace moetwin {

constexpr size_t kMaxTextBytes = 4096;
/// `replay:` and 64 KiB of choices.
constexpr size_t kMaxScheduleBytes = 7 + 65536;
/// A schedule that begins so names a file, relative to the case file.
inline constexpr std::string_view kReplayFile = "replay:@";
constexpr int64_t kMaxLateSteps = 1'000'000'000;

/// The spellings of enumerators, in order of their values. The writer uses them too.
inline constexpr const char* kRoutingKindNames[] = {
    "uniform",     "zipf",     "hot_expert", "hot_rank", "group_limited",
    "round_robin", "explicit", "trace",      "counts",   "file"};
inline constexpr const char* kRoutingWeightsNames[] = {"normalized", "uniform", "raw"};
inline constexpr const char* kDataKindNames[] = {"normal", "outlier", "same_sign", "heavy_tail",
                                                 "ties",   "extreme", "file"};
inline constexpr const char* kSchedulerNames[] = {"wave", "ring"};
inline constexpr const char* kLandingNames[] = {"late", "early", "random"};
inline constexpr const char* kPaddingNames[] = {"skip", "compute"};

/// Default of routing.share: it depends on the kind.
constexpr double default_share(RoutingKind kind) {
  return kind == RoutingKind::HotRank ? 1.0 : 0.9;
}

/// `path` joined to `base` (empty: the working directory) unless it is absolute, without dots.
std::string resolve_path(const std::string& base, const std::string& path);

Shape read_shape(const Json& value, const std::string& path);

/// `value` null: the capacity on each rank.
std::vector<uint32_t> read_tokens(const Json* value, const std::string& path, const Shape& shape);

/// `value` null: an empty object. Of kind file takes its path from `data`.
DataSpec read_data(const Json* value, const std::string& path, const std::string& base);
RoutingSpec read_routing(const Json* value, const std::string& path, const Shape& shape,
                         const std::vector<uint32_t>& tokens, const DataSpec& data,
                         const std::string& base);

/// The kernel's options and the activation limit, which a case keeps beside them.
struct KernelSection {
  KernelOptions options;
  float clamp;
};
KernelSection read_kernel(const Json* value, const std::string& path);

World read_world(const Json* value, const std::string& path, const Shape& shape,
                 const KernelOptions& kernel);

}  // namespace moetwin
