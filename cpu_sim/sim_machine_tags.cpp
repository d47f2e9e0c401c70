// The simulated machine without tile arithmetic: tags stand for rows and scale factors, and are
// compared wherever a tile, a scale or a scattered row must belong to one token.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "common/number_formats.h"
#include "cpu_sim/sim_machine.h"

namespace moetwin {

void SimMachine::check_scale_tags(const Accumulator& total, const Accumulator& product,
                                  const RowValues<float>& scales) {
  std::array<uint32_t, kMathRows> expected;
  for (uint32_t row = 0; row < total.valid; ++row) expected[row] = scale_tag(total.tags[row]);
  const size_t bytes = total.valid * sizeof(uint32_t);
  const auto check = [&](const void* found) {
    sim_.counts().invariants_checked += total.valid;
    if (std::memcmp(found, expected.data(), bytes) == 0) return;
    std::array<uint32_t, kMathRows> wrong;
    std::memcpy(wrong.data(), found, bytes);
    uint32_t row = 0;
    while (wrong[row] == expected[row]) ++row;
    sim_.stop(FindingClass::Mismatch, agent_, Step::MathReadScales,
              fmt::format("row {} of the tile is multiplied with another row's scale", row));
  };
  check(scales.rows.data());
  // The scales of the other blocks of K were not staged: they are held against the ring's, where
  // this tile's rows lie until warpgroup 0, which speaks for all, releases the block.
  if (k_blocks_a_step_ == 1 || total.valid == 0 || agent_.number != 0) return;
  const KernelPlan& plan = sim_.plan();
  const uint32_t in_stages = product.a.offset - plan.shared.stage_a;
  const uint32_t first = in_stages % plan.stage_a_bytes() / kBlockK;
  const uint64_t source = cta_.tags.stage_source[in_stages / plan.stage_a_bytes()];
  const bool linear1 = address_region(source) == static_cast<uint32_t>(Region::PoolX);
  const Shape& shape = sim_.launch(agent_.rank).args.shape;
  const uint64_t pitch = linear1 ? shape.hidden : shape.intermediate;
  const uint64_t ring_index = address_offset(source) / pitch / plan.block_m;
  const uint32_t parts = kBlockK / kMmaK / product.steps;
  const uint32_t part = product.first_step / product.steps;
  const uint64_t columns = uint64_t{k_blocks_a_step_} * parts;
  const Global<float> ring = region<float>(linear1 ? Region::PoolXScales : Region::Linear1Scales);
  for (uint64_t column = part + parts; column < columns; column += parts)
    check(readable((ring + ((ring_index * columns + column) * plan.block_m + first)).address, bytes,
                   alignof(float), Step::MathReadScales));
}

void SimMachine::read_operand_tags(Accumulator& total, const Accumulator& product, Step step) {
  const KernelPlan& plan = sim_.plan();
  const uint32_t stage = (product.a.offset - plan.shared.stage_a) / plan.stage_a_bytes();
  const uint32_t first = (product.a.offset - plan.shared.stage_a) % plan.stage_a_bytes() / kBlockK;
  for (uint32_t row = 0; row < total.valid; ++row) {
    const RowTag tag = cta_.tags.stage[stage][first + row];
    if (!total.tagged) {
      total.tags[row] = tag;
    } else {
      ++sim_.counts().invariants_checked;
      if (total.tags[row] != tag)
        sim_.stop(FindingClass::Mismatch, agent_, step,
                  fmt::format("row {} of the tile changes its token on the way through K", row));
    }
  }
  total.tagged = true;
}

void SimMachine::stage_tags(const Accumulator& total, Shared<uint8_t>) {
  auto& staging = cta_.tags.staging[agent_.number];
  staging.fill(kNoTag);
  std::copy_n(total.tags.begin(), total.valid, staging.begin());
}

void SimMachine::scatter_tag(uint64_t address, Shared<uint8_t>, uint32_t row, uint32_t bytes,
                             Step step) {
  const Shape& shape = sim_.launch(agent_.rank).args.shape;
  const uint32_t rank = address_rank(address);
  const CombineRow place = combine_row(shape, address_offset(address));
  const RowTag tag = cta_.tags.staging[agent_.number][row];
  ++sim_.counts().invariants_checked;
  if (tag != row_tag(sim_.rank(agent_.rank).launch, rank, place.token))
    sim_.stop(FindingClass::Mismatch, agent_, step,
              fmt::format("another token's row is scattered to {}", sim_.place_name(address)));
  auto& slots = sim_.rank(rank).tags.combine;
  const uint64_t slot = uint64_t{place.token} * shape.topk + place.k;
  if (place.k >= shape.topk || slot >= slots.size())
    sim_.stop(FindingClass::Bounds, agent_, step,
              fmt::format("a row is scattered to {}, which no token of the rank has",
                          sim_.place_name(address)));
  CombineTag& arrived = slots[slot];
  if (arrived.tag != tag) arrived = {tag, 0};
  arrived.bytes += bytes;
}

}  // namespace moetwin
