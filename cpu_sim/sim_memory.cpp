#include "cpu_sim/sim_memory.h"

#include <fmt/format.h>

#include "common/number_formats.h"

namespace moetwin {

static_assert(pack_address(3, 7, 11) == word_id(3, 7, 11), "a timeline's words are addresses");

void SimMemory::undefined_global(uint64_t address, uint64_t bytes, Step step) {
  const PoisonedBytes& memory = sim_.rank(address_rank(address)).memory;
  sim_.undefined_read(agent_, step, sim_.place_name(address),
                      memory.written(sim_.memory_offset(address), bytes));
}

void SimMemory::undefined_shared(uint32_t offset, uint32_t bytes, Step step) {
  sim_.undefined_read(agent_, step, sim_.shared_name(offset), cta_.shared.written(offset, bytes));
}

float SimMemory::token_scale_tag(uint64_t address) const {
  const uint32_t rank = address_rank(address);
  const uint32_t blocks = sim_.launch(agent_.rank).args.shape.hidden_blocks();
  const auto token = static_cast<uint32_t>(address_offset(address) / 4 / blocks);
  return float_of_bits(scale_tag(row_tag(sim_.rank(agent_.rank).launch, rank, token)));
}

void SimMemory::wait_until(Global<uint32_t> word, Awaited awaited, Scope scope, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { wait_until(word, awaited, scope, step); })) return;
  Order order = Order::Acquire;
  weaken(order, scope, step);
  awaited.value += static_cast<uint32_t>(delta(MutantKind::Target, step));
  trace(TraceKind::Begin, step, TraceObject::Word, word.address);
  if (mutated(MutantKind::LateTarget, step)) awaited.value = peek(word, step);
  bool listening = false;
  for (;;) {
    const uint32_t value = peek(word, step);
    if (awaited.holds(value)) break;
    if (!listening) sim_.wait_on_word(agent_, word.address, awaited);
    listening = true;
    Wait wait;
    wait.kind = Wait::Kind::Word;
    wait.step = step;
    wait.address = word.address;
    wait.awaited = awaited;
    sim_.block(agent_, wait);
  }
  if (listening) sim_.stop_waiting_on_word(agent_, word.address);
  if (checker_)
    checker_->word_wait(sim_.id_of(agent_), all_warps(agent_.warps), order, scope, step,
                        race_range(word, sizeof(uint32_t)));
  trace(TraceKind::End, step, TraceObject::Word, word.address);
  const SyncOp op = awaited.kind == Awaited::Kind::AtLeast ? SyncOp::WaitAtLeast
                    : awaited.kind == Awaited::Kind::Equal ? SyncOp::WaitEqual
                                                           : SyncOp::WaitFlip;
  sim_.synced(sim_.id_of(agent_), step, op, word.address, awaited.value);
  synchronised();
}

void SimMemory::bound(uint32_t index, uint64_t limit, Step step, uint32_t expert) {
  if (index < limit) return;
  sim_.stop(FindingClass::Overflow, agent_, step,
            fmt::format("slot {} of {} on expert {} from rank {} would lie in the next source "
                        "rank's table; refused before the write",
                        index, limit, expert, agent_.rank));
}

}  // namespace moetwin
