// A case: everything that decides a run, parsed from one JSON file (DESIGN section 7) and checked
// against every limit that needs no kernel plan. It owns the types, reading, writing and the step
// from a case to the problems its launches compute. It knows neither the JSON library (see
// json_reader.h) nor how schedules and planted faults are spelled: those two strings are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kernel_options.h"
#include "common/shape.h"
#include "model/data_spec.h"
#include "model/problem.h"
#include "model/routing_spec.h"

namespace moetwin {

constexpr uint32_t kCaseFormat = 1;
constexpr uint32_t kMaxLaunches = 1000;

/// When the effect of an asynchronous operation lands, within what is legal.
enum class Landing : uint8_t { Late, Early, Random };

/// Whether rows past the valid count of a block are computed (on poison) or skipped.
enum class Padding : uint8_t { Skip, Compute };

struct HeldSm {
  uint32_t rank = 0;
  uint32_t sm = 0;
  friend bool operator==(const HeldSm&, const HeldSm&) = default;
};

/// What the simulated machine does to a program within its rights.
struct World {
  Landing landing = Landing::Late;
  uint8_t poison = 255;               ///< the byte that fills memory nobody wrote
  std::optional<uint32_t> late_rank;  ///< a rank that starts late, if any
  uint64_t late_steps = 1000;         ///< how many steps the others run first
  std::vector<HeldSm> held_sms;       ///< SMs that another program occupies, each once
  Padding padding = Padding::Skip;
  friend bool operator==(const World&, const World&) = default;
};

/// What one launch draws its inputs from. Weights are drawn from the case's own `data`.
struct LaunchSpec {
  Shape shape;                   ///< only the capacity, hidden and intermediate may differ
  std::vector<uint32_t> tokens;  ///< [ranks], each at most shape.max_tokens_per_rank
  RoutingSpec routing;
  DataSpec data;
  friend bool operator==(const LaunchSpec&, const LaunchSpec&) = default;
};

struct Case {
  Shape shape;
  std::vector<uint32_t> tokens;  ///< [ranks]
  RoutingSpec routing;
  DataSpec data;
  KernelOptions kernel;
  float clamp = std::numeric_limits<float>::infinity();  ///< infinity: none
  std::string schedule = "fifo";                         ///< `replay:@FILE` holds a resolved path
  std::vector<LaunchSpec> launches;                      ///< 1 to kMaxLaunches
  World world;
  std::string plant;  ///< empty: none
  friend bool operator==(const Case&, const Case&) = default;
};

/// The case that `json_text` describes. Relative paths in it are taken from `base_directory`
/// (empty: the working directory) and become absolute; no file is opened. Throws InputError: one
/// line with the dotted path of the field, the value found and the limit.
Case parse_case(std::string_view json_text, const std::string& base_directory);

/// parse_case of a file's text, its paths taken from the file's directory. Throws InputError.
Case load_case(const std::string& path);

/// A case file's text, one section a line, that holds what differs from the defaults: parse_case of
/// it gives an equal case. Paths below `base_directory` (where the file will lie) are written
/// relative to it, others absolute.
std::string case_to_json(const Case& c, const std::string& base_directory = "");

/// Writes case_to_json to `path`, relative to its directory. Throws InputError if that fails.
void save_case(const Case& c, const std::string& path);

/// Makes the launches that `"launches": count` means: launch i draws routing and x with seed + i.
void set_launches(Case& c, uint32_t count);

/// Shares weights between the launches of one case that have the same hidden and intermediate size.
class WeightCache {
 public:
  /// `maker` empty: make_weights().
  explicit WeightCache(WeightMaker maker = {}) : maker_(std::move(maker)) {}

  std::shared_ptr<const WeightSource> weights(const DataSpec& data, const Shape& shape);

 private:
  struct Entry {
    DataSpec data;
    Shape shape;
    std::shared_ptr<const WeightSource> source;
  };
  WeightMaker maker_;
  std::vector<Entry> entries_;
};

/// The inputs of one launch of `c`, made or read. Throws InputError for files that do not fit the
/// case. `launch` < c.launches.size().
Problem make_problem(const Case& c, size_t launch, WeightCache& cache);

/// The same without activations and weights: what a run that moves tags in their place needs.
Problem make_routed_problem(const Case& c, size_t launch);

}  // namespace moetwin
