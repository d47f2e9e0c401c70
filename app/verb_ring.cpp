// ring: the smallest ring that cannot deadlock, and the reason in words.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/case_checks.h"
#include "app/options.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/ring_pool.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin ring small.json\n"
    "  moetwin ring small.json --json\n";

struct Options {
  std::string path;
  bool json = false;
};

/// The launch whose ring must be largest decides.
const LaunchSpec& deciding_launch(const Case& c) {
  const LaunchSpec* deciding = &c.launches.front();
  const auto ring = [&c](const LaunchSpec& launch) {
    return smallest_safe_ring(launch.shape, c.kernel.block_m, c.kernel.sms_per_rank);
  };
  for (const LaunchSpec& launch : c.launches)
    if (ring(launch) > ring(*deciding)) deciding = &launch;
  return *deciding;
}

std::string reason(const Case& c, const Shape& shape) {
  const uint32_t block_m = c.kernel.block_m;
  const uint32_t sms = c.kernel.sms_per_rank;
  const TileCounts tiles = tile_counts(shape);
  const uint32_t warm_up = linear1_warm_up(shape, sms);
  const uint64_t blocks = max_pool_blocks(shape, block_m);
  const std::string ahead = fmt::format(
      "{} SMs hold at most {} tiles, worked on or claimed ahead; a block has {} Linear1 tiles, so "
      "{} Linear1 blocks stand before the first Linear2 block",
      sms, 2 * sms, tiles.n1, warm_up);
  if (blocks <= warm_up)
    return fmt::format(
        "{}, but no routing of {} tokens on each of {} ranks to {} experts a rank fills more than "
        "{} pool blocks of {} rows: the ring never wraps",
        ahead, shape.max_tokens_per_rank, shape.ranks, shape.num_local_experts(), blocks, block_m);
  return fmt::format(
      "{}; with {} ring slots everything a tile waits for stands before it, with {} Linear1 of "
      "block {} waits for Linear2 of block 0, which stands behind it",
      ahead, warm_up, warm_up - 1, warm_up - 1);
}

int show_ring(const Options& o) {
  const Case c = load_case(o.path);
  const Shape& shape = deciding_launch(c).shape;
  for (const LaunchSpec& launch : c.launches) plan_of(c, launch, true);
  const uint64_t ring = smallest_safe_ring(shape, c.kernel.block_m, c.kernel.sms_per_rank);
  const std::string why = reason(c, shape);
  std::string text;
  if (o.json) {
    const nlohmann::ordered_json out = {
        {"ring_blocks", ring}, {"why", why}, {"counterexample", nullptr}};
    text = out.dump() + "\n";
  } else {
    text = case_lines(c, true) + fmt::format("\nsmallest safe ring: {} blocks\n{}\n", ring, why);
  }
  std::fputs(text.c_str(), stdout);
  return kExitFine;
}

}  // namespace

VerbAction add_ring(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file; its own ring_blocks does not matter");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return show_ring(*o); };
}

}  // namespace moetwin
