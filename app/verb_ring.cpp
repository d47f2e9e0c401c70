// ring: the smallest ring that cannot deadlock, and the reason in words.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/arguments.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/ring_pool.h"
#include "fuzz/ring_witness.h"
#include "model/case.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin ring small.json\n"
    "  moetwin ring small.json --out short.json && moetwin run short.json --unsafe-ring\n"
    "  moetwin ring small.json --json\n";

struct Options {
  std::string path;
  std::string out;
  bool json = false;
};

/// The launch whose ring must be largest decides.
const LaunchSpec& deciding_launch(const Case& c) {
  const LaunchSpec* deciding = &c.launches.front();
  const auto ring = [&c](const LaunchSpec& launch) {
    return smallest_safe_ring(launch.shape, {c.kernel.block_m, c.kernel.block_n},
                              c.kernel.sms_per_rank);
  };
  for (const LaunchSpec& launch : c.launches)
    if (ring(launch) > ring(*deciding)) deciding = &launch;
  return *deciding;
}

/// Any number of stages is enough for the first unfinished tile to run: its loads wait for the
/// stages of tiles that stand before it, and those are free once these tiles are done.
constexpr uint32_t kSmallestSafeStages = 1;

std::string reason(const Case& c, const Shape& shape) {
  const uint32_t block_m = c.kernel.block_m;
  const uint32_t sms = c.kernel.sms_per_rank;
  const TileCounts tiles = tile_counts(shape, c.kernel.block_n);
  const uint32_t warm_up = linear1_warm_up(shape, c.kernel.block_n, sms);
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

std::string smaller_ring_text(const Case& c, uint64_t ring, const std::optional<Case>& smaller,
                              const std::string& out) {
  if (c.kernel.scheduler == SchedulerPolicy::Wave)
    return "one block less: no ring is used, waves keep the whole pool\n";
  if (ring == 1) return "one block less: there is no smaller ring\n";
  if (!smaller) return "one block less: no deadlock was found by directed and random search\n";
  const std::string repeat = out.empty()
                                 ? "moetwin ring CASE --out FILE writes the case"
                                 : fmt::format("moetwin run {} --unsafe-ring", shell_quote(out));
  return fmt::format(
      "one block less: deadlock, found and confirmed by simulation, with {} pool blocks on rank 0 "
      "and schedule {}\n{}\n",
      ring,
      smaller->schedule.size() > 60 ? smaller->schedule.substr(0, 57) + "..." : smaller->schedule,
      repeat);
}

int show_ring(const Options& o) {
  const Case c = load_case(o.path);
  const Shape& shape = deciding_launch(c).shape;
  for (const LaunchSpec& launch : c.launches) plan_of(c, launch, true);
  const uint64_t ring =
      smallest_safe_ring(shape, {c.kernel.block_m, c.kernel.block_n}, c.kernel.sms_per_rank);
  const std::string why =
      fmt::format("{}; {} stage is enough", reason(c, shape), kSmallestSafeStages);
  std::optional<Case> smaller;
  {
    const Progress progress("ring");
    smaller = find_ring_deadlock(shape, c.kernel);
  }
  if (!o.out.empty() && smaller) save_case(*smaller, o.out);
  std::string text;
  if (o.json) {
    const nlohmann::ordered_json out = {
        {"ring_blocks", ring},
        {"why", why},
        {"counterexample",
         smaller ? nlohmann::ordered_json::parse(case_to_json(*smaller)) : nullptr}};
    text = out.dump() + "\n";
  } else {
    text = case_lines(c, true) + fmt::format("\nsmallest safe ring: {} blocks\n{}\n", ring, why) +
           smaller_ring_text(c, ring, smaller, o.out);
  }
  std::fputs(text.c_str(), stdout);
  return kExitFine;
}

}  // namespace

VerbAction add_ring(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file; its own ring_blocks does not matter");
  options.text("--out", o->out, "write the counterexample, a case for run --unsafe-ring");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return show_ring(*o); };
}

}  // namespace moetwin
