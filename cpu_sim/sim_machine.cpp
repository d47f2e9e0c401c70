// The tensor core of the simulated machine, and rows that accumulators leave by.
#include "cpu_sim/sim_machine.h"

#include <fmt/format.h>

#include "common/check.h"
#include "common/number_formats.h"

namespace moetwin {

SimMachine::Accumulator::~Accumulator() {
  if (machine != nullptr) machine->sim_.tiles().release(job);
  if (late_wait != nullptr) late_wait->late_product_ = nullptr;
}

void SimMachine::clear(Accumulator& total, uint32_t valid) {
  total.machine = this;
  total.valid = valid;
  ++sim_.counts().tiles;
  if (!math()) return;
  total.job = sim_.tiles().acquire(sim_.padding() == Padding::Compute ? kMathRows : valid);
}

void SimMachine::issue_mma(Accumulator& product, Shared<uint8_t> a, Shared<uint8_t> b,
                           uint32_t first_step, uint32_t steps, Step step) {
  sim_.visible(agent_);
  trace(TraceKind::Begin, step);
  product.a = a;
  product.b = b;
  product.first_step = first_step;
  product.steps = steps;
  product.read = false;
  product.retired = false;
  // Whole rows: the swizzle spreads a slice of K over all of a row's bytes.
  if (checker_)
    product.operation = checker_->mma(sim_.id_of(agent_), step,
                                      sim_.race_range(agent_, a.offset, kMathRows * kBlockK),
                                      sim_.race_range(agent_, b.offset, kSliceN * kBlockK));
  // The tensor core may read its operands at once, or as late as the wait that retires it.
  const bool early =
      sim_.landing() == Landing::Early ||
      (sim_.landing() == Landing::Random && sim_.scheduler().random(sim_.id_of(agent_)) % 2 == 0);
  if (early) read_operands(product, step);
}

void SimMachine::mma_wait(Accumulator& product, Step step) {
  sim_.visible(agent_);
  const uint64_t steps = uint64_t{product.steps} * k_blocks_a_step_;
  if (sim_.timed())
    agent_.time =
        std::max(agent_.time, sim_.bandwidth().tensor_cores(agent_.time, agent_.cta, steps));
  if (dropped(step)) return;
  if (postponed(step, [step, operation = product.operation, this] {
        if (late_product_ != nullptr)
          mma_wait(*late_product_, step);
        else
          mma_retired(operation, step);
      })) {
    late_product_ = &product;
    product.late_wait = this;
    return;
  }
  if (!product.read) read_operands(product, step);
  product.retired = true;
  mma_retired(product.operation, step);
}

void SimMachine::mma_retired(uint32_t operation, Step step) {
  if (checker_) checker_->retired(operation, sim_.id_of(agent_));
  trace(TraceKind::End, step);
  synchronised();
}

void SimMachine::read_operands(Accumulator& product, Step step) {
  product.read = true;
  if (!math()) return read_operand_tags(*product.total, product, step);
  const uint32_t first = product.first_step * kMmaK;
  const uint32_t width = product.steps * kMmaK;
  for (uint32_t row = 0; row < product.total->valid; ++row)
    readable_shared(product.a.offset + row * kBlockK + first, width, 16, step);
  for (uint32_t row = 0; row < kSliceN; ++row)
    readable_shared(product.b.offset + row * kBlockK + first, width, 16, step);
  const uint8_t* a = sim_.shared_bytes(agent_, product.a.offset, kMathRows * kBlockK, 16, step, 0);
  const uint8_t* b = sim_.shared_bytes(agent_, product.b.offset, kSliceN * kBlockK, 16, step, 0);
  product.block =
      sim_.tiles().multiply(*product.total->job, a + first, b + first, kBlockK, product.steps);
}

void SimMachine::promote(Accumulator& total, Accumulator& product, const RowValues<float>& scales,
                         float even, float odd) {
  cost(sim_.costs().promote);
  if (!product.retired) {
    sim_.report(FindingClass::Barrier, agent_, Step::MathMmaWait,
                "reads an accumulator whose wgmma has not been waited for");
    read_operands(product, Step::MathMmaWait);
  }
  if (!math()) return check_scale_tags(total, product, scales);
  TileJob::Block& block = total.job->blocks[product.block];
  std::copy_n(scales.rows.begin(), kMathRows, block.row_scales);
  block.even_scale = even;
  block.odd_scale = odd;
  sim_.tiles().make_ready(*total.job, product.block);
}

void SimMachine::store_rows(Global<float> to, const RowValues<float>& values, uint32_t valid,
                            Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  const auto& tags = cta_.tags.staging[agent_.number];
  if (checker_) note_rows(AccessKind::Write, to, valid, step);
  for (uint32_t row = 0; row < valid; ++row)
    poke(to + row, math() ? values[row] : float_of_bits(scale_tag(tags[row])), step);
}

}  // namespace moetwin
