#include "app/received.h"

#include <fmt/format.h>

#include "model/routing.h"

namespace moetwin {
namespace {

constexpr size_t kMostLines = 16;

}  // namespace

std::vector<Received> count_received(const LaunchSpec& launch, const KernelPlan& plan) {
  const Shape& shape = launch.shape;
  std::vector<RankInput> inputs;
  make_routing(launch.routing, shape, launch.tokens, inputs);
  std::vector<uint64_t> rows(shape.experts, 0);
  for (const RankInput& input : inputs)
    for (const int32_t expert : input.topk_idx)
      if (expert != kMaskedExpert) ++rows[static_cast<uint32_t>(expert)];

  std::vector<Received> received(shape.ranks);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    Received& r = received[rank];
    r.tokens = launch.tokens[rank];
    r.busiest_expert = rank * shape.num_local_experts();
    for (uint32_t local = 0; local < shape.num_local_experts(); ++local) {
      const uint32_t expert = rank * shape.num_local_experts() + local;
      r.rows += rows[expert];
      r.blocks += (rows[expert] + plan.block_m - 1) / plan.block_m;
      r.experts_without += rows[expert] == 0 ? 1 : 0;
      if (rows[expert] <= r.busiest_rows) continue;
      r.busiest_expert = expert;
      r.busiest_rows = rows[expert];
    }
  }
  return received;
}

std::string received_table(const std::vector<Received>& received, const KernelPlan& plan) {
  std::string table =
      "rank  tokens  received rows  pool blocks  ring laps  busiest expert  idle experts\n";
  for (size_t rank = 0; rank < received.size(); ++rank) {
    if (received.size() > kMostLines && rank == kMostLines / 2) {
      const size_t left_out = received.size() - kMostLines;
      table += fmt::format("   .  ({} more ranks)\n", left_out);
      rank += left_out;
    }
    const Received& r = received[rank];
    const std::string busiest =
        r.rows == 0 ? "none" : fmt::format("{} ({} rows)", r.busiest_expert, r.busiest_rows);
    table += fmt::format("{:4}  {:6}  {:13}  {:11}  {:9}  {:>14}  {:12}\n", rank, r.tokens, r.rows,
                         r.blocks, (r.blocks + plan.ring_blocks - 1) / plan.ring_blocks, busiest,
                         r.experts_without);
  }
  return table;
}

}  // namespace moetwin
