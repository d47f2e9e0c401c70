#include "fuzz/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/kernel_plan.h"
#include "model/case_reader.h"

namespace moetwin {
namespace {

std::string numbered(const std::string& what, uint64_t number) {
  return what + " " + std::to_string(number);
}

void cover_kernel(const Case& c, Coverage& seen) {
  ++seen[numbered("ranks", c.shape.ranks)];
  ++seen[numbered("topk", c.shape.topk)];
  ++seen[numbered("block_m", c.kernel.block_m)];
  ++seen[numbered("block_n", c.kernel.block_n)];
  ++seen[numbered("stages", c.kernel.stages)];
  ++seen[numbered("sms_per_rank", c.kernel.sms_per_rank)];
  ++seen[c.kernel.scheduler == SchedulerPolicy::Ring ? "ring" : "wave"];
  ++seen[std::isinf(c.clamp) ? "clamp none" : "clamp finite"];
  ++seen["landing " + std::string(kLandingNames[static_cast<uint32_t>(c.world.landing)])];
  ++seen["padding " + std::string(kPaddingNames[static_cast<uint32_t>(c.world.padding)])];
  ++seen[c.world.poison == 255 ? "poison 255" : "poison other"];
  ++seen["schedule " + c.schedule.substr(0, c.schedule.find(':'))];
  ++seen[numbered("launches", c.launches.size())];
  if (c.launches.size() == 2 && !(c.launches[0].routing == c.launches[1].routing))
    ++seen["second launch routes differently"];
  const uint32_t wave = c.kernel.experts_per_wave;
  if (c.kernel.scheduler == SchedulerPolicy::Wave && wave != 0 &&
      c.shape.num_local_experts() % wave != 0)
    ++seen["experts that do not fill a wave"];
  ++seen["data " + std::string(kDataKindNames[static_cast<uint32_t>(c.data.kind)])];
}

/// What the launch's routing came out as.
void cover_routing(const LaunchSpec& launch, const Problem& problem, const KernelPlan& plan,
                   Coverage& seen) {
  const Shape& s = launch.shape;
  std::map<int32_t, uint64_t> rows;
  bool masked = false;
  bool duplicate = false;
  for (const RankInput& rank : problem.ranks) {
    ++seen[rank.num_tokens == 0                       ? "rank without tokens"
           : rank.num_tokens == s.max_tokens_per_rank ? "rank with all its tokens"
                                                      : "rank with some tokens"];
    for (size_t slot = 0; slot < rank.topk_idx.size(); ++slot) {
      const int32_t expert = rank.topk_idx[slot];
      masked = masked || expert == kMaskedExpert;
      if (expert == kMaskedExpert) continue;
      ++rows[expert];
      for (size_t before = slot - slot % s.topk; before < slot; ++before)
        duplicate = duplicate || rank.topk_idx[before] == expert;
      if (rank.topk_weights[slot] < 0) ++seen["negative weight"];
      if (rank.topk_weights[slot] == 0) ++seen["zero weight"];
    }
  }
  if (masked) ++seen["masked slot"];
  if (duplicate) ++seen["duplicated expert"];
  if (rows.empty()) ++seen["nothing routed"];
  ++seen["routing " + std::string(kRoutingKindNames[static_cast<uint32_t>(launch.routing.kind)])];
  std::vector<uint64_t> blocks(s.ranks, 0);
  for (const auto& [expert, count] : rows) {
    const uint32_t m = plan.block_m;
    if (count + 1 == m) ++seen[numbered("an expert with BLOCK_M - 1 rows, BLOCK_M", m)];
    if (count == m) ++seen[numbered("an expert with BLOCK_M rows, BLOCK_M", m)];
    if (count == m + 1) ++seen[numbered("an expert with BLOCK_M + 1 rows, BLOCK_M", m)];
    blocks[s.rank_of_expert(static_cast<uint32_t>(expert))] += (count + m - 1) / m;
  }
  const uint64_t most = *std::max_element(blocks.begin(), blocks.end());
  if (plan.scheduler == SchedulerPolicy::Ring &&
      plan.ring_blocks == smallest_safe_ring(s, {plan.block_m, plan.block_n}, plan.sms)) {
    if (most > plan.ring_blocks) ++seen["second lap of the smallest ring"];
    if (most > 2 * plan.ring_blocks) ++seen["third lap of the smallest ring"];
  }
}

/// Bit patterns that the data kinds must have brought.
void cover_values(const Problem& problem, Coverage& seen) {
  bool minus_zero = false;
  bool subnormal = false;
  bool zero_row = false;
  bool nan = false;
  for (const RankInput& rank : problem.ranks) {
    for (size_t at = 0; at < rank.x_codes.size(); at += problem.shape.hidden) {
      bool all_zero = true;
      for (size_t i = at; i < at + problem.shape.hidden; ++i) {
        const uint8_t magnitude = rank.x_codes[i] & 0x7F;
        all_zero = all_zero && magnitude == 0;
        minus_zero = minus_zero || rank.x_codes[i] == 0x80;
        subnormal = subnormal || (magnitude > 0 && magnitude < 8);
        nan = nan || magnitude == 0x7F;
      }
      zero_row = zero_row || all_zero;
    }
  }
  if (minus_zero) ++seen["code -0"];
  if (subnormal) ++seen["subnormal code"];
  if (zero_row) ++seen["zero row"];
  if (nan) ++seen["NaN code"];
}

}  // namespace

void cover_launch(const Case& c, size_t launch, const Problem& problem, Coverage& seen) {
  if (launch == 0) cover_kernel(c, seen);
  cover_routing(c.launches[launch], problem, make_plan(c.launches[launch].shape, c.kernel).plan,
                seen);
  cover_values(problem, seen);
}

std::vector<std::string> wanted_features() {
  std::vector<std::string> wanted = {
      "ring",
      "wave",
      "clamp none",
      "clamp finite",
      "poison 255",
      "poison other",
      "schedule fifo",
      "schedule random",
      "schedule slow",
      "launches 1",
      "launches 2",
      "second launch routes differently",
      "experts that do not fill a wave",
      "rank without tokens",
      "rank with all its tokens",
      "rank with some tokens",
      "nothing routed",
      "negative weight",
      "zero weight",
      "masked slot",
      "duplicated expert",
      "second lap of the smallest ring",
      "third lap of the smallest ring",
      "code -0",
      "subnormal code",
      "zero row",
      "NaN code",
  };
  const auto add_range = [&](const std::string& what, uint64_t low, uint64_t high) {
    for (uint64_t i = low; i <= high; ++i) wanted.push_back(numbered(what, i));
  };
  add_range("ranks", 1, 8);
  add_range("topk", 1, kMaxTopk);
  add_range("stages", 1, 6);
  add_range("sms_per_rank", 1, 8);
  for (const uint32_t m : {64, 128}) {
    wanted.push_back(numbered("block_m", m));
    for (const char* rows : {"BLOCK_M - 1", "BLOCK_M", "BLOCK_M + 1"})
      wanted.push_back(numbered(fmt::format("an expert with {} rows, BLOCK_M", rows), m));
  }
  for (const char* name : kLandingNames) wanted.push_back(std::string("landing ") + name);
  for (const char* name : kPaddingNames) wanted.push_back(std::string("padding ") + name);
  for (const char* name : kRoutingKindNames)
    if (std::string(name) != "trace" && std::string(name) != "counts" &&
        std::string(name) != "file")
      wanted.push_back(std::string("routing ") + name);
  for (const char* name : kDataKindNames)
    if (std::string(name) != "file") wanted.push_back(std::string("data ") + name);
  return wanted;
}

}  // namespace moetwin
