#include "fuzz/signals.h"

#include <algorithm>
#include <bit>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

constexpr uint32_t kFirstCount = kPairSignals;
constexpr uint32_t kFirstRing = kFirstCount + kCountSignals;
constexpr uint32_t kFirstLap = kFirstRing + kRingSignals;
constexpr uint32_t kHexDigits = (kNumSignals + 3) / 4;

bool is_wait(SyncOp op) {
  return op == SyncOp::WaitAtLeast || op == SyncOp::WaitFlip || op == SyncOp::WaitEqual ||
         op == SyncOp::WaitPhase || op == SyncOp::WaitRound || op == SyncOp::WaitCopies;
}

}  // namespace

uint32_t count_pairs(const Signals& signals) {
  uint32_t pairs = 0;
  for (uint32_t i = 0; i < kPairSignals; ++i) pairs += signals[i] ? 1 : 0;
  return pairs;
}

std::string signals_to_hex(const Signals& signals) {
  std::string text(kHexDigits, '0');
  for (uint32_t i = 0; i < kHexDigits; ++i) {
    uint32_t digit = 0;
    for (uint32_t bit = 0; bit < 4 && 4 * i + bit < kNumSignals; ++bit)
      digit |= (signals[4 * i + bit] ? 1u : 0u) << bit;
    text[i] = "0123456789abcdef"[digit];
  }
  return text;
}

Signals signals_from_hex(std::string_view text) {
  Signals signals;
  if (text.size() != kHexDigits)
    throw InputError("signals: " + std::to_string(text.size()) + " digits are not " +
                     std::to_string(kHexDigits));
  for (uint32_t i = 0; i < kHexDigits; ++i) {
    const size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) throw InputError("signals: not hexadecimal");
    for (uint32_t bit = 0; bit < 4 && 4 * i + bit < kNumSignals; ++bit)
      signals[4 * i + bit] = (digit >> bit & 1) != 0;
  }
  return signals;
}

void SignalObserver::begin(uint32_t x_full_a_block, uint32_t linear1_slices, uint32_t ranks,
                           uint32_t ring_blocks) {
  constexpr size_t kPlaces = 1024;
  if (places_.empty()) places_.resize(kPlaces);
  ++run_;
  used_ = 0;
  seen_.reset();
  std::fill_n(counts_, kNumSteps, 0u);
  x_full_a_block_ = std::max(1u, x_full_a_block);
  linear1_slices_ = std::max(1u, linear1_slices);
  ring_blocks_ = std::min(ring_blocks, 4096u);
  blocks_.assign(size_t{ranks} * 2 * ring_blocks_, 0);
  occupied_.assign(ranks, 0);
}

Step& SignalObserver::arrival_at(uint64_t object) {
  const size_t mask = places_.size() - 1;
  for (size_t i = mix_bits(object) & mask;; i = (i + 1) & mask) {
    Place& place = places_[i];
    if (place.run == run_ && place.object == object) return place.last_arrival;
    if (place.run == run_) continue;
    if (2 * ++used_ > places_.size()) {
      grow();
      return arrival_at(object);
    }
    place = {object, run_, Step::None};
    return place.last_arrival;
  }
}

void SignalObserver::grow() {
  std::vector<Place> old(2 * places_.size());
  old.swap(places_);
  used_ = 0;
  for (const Place& place : old)
    if (place.run == run_) arrival_at(place.object) = place.last_arrival;
}

void SignalObserver::on_sync(const Observation& event) {
  ++counts_[static_cast<uint32_t>(event.step)];
  if (is_wait(event.op)) {
    const Step arrival = arrival_at(event.object);
    if (arrival != Step::None)
      seen_.set(static_cast<uint32_t>(arrival) * kNumSteps + static_cast<uint32_t>(event.step));
    return;
  }
  if (event.op == SyncOp::Add || event.op == SyncOp::Fetch || event.op == SyncOp::Land ||
      (event.op == SyncOp::Arrive && event.completes))
    arrival_at(event.object) = event.step;
  if (event.object < kBarrierObjects) ring_word(event);
}

void SignalObserver::ring_word(const Observation& event) {
  const auto region = static_cast<Region>(address_region(event.object));
  const bool fills = region == Region::XFull;
  if (!fills && region != Region::XEmpty) return;
  const uint32_t rank = address_rank(event.object);
  const uint64_t slot = address_offset(event.object) / sizeof(uint32_t);
  if (slot >= ring_blocks_ || rank >= occupied_.size()) return;
  uint32_t& known = blocks_[(size_t{rank} * 2 + (fills ? 0 : 1)) * ring_blocks_ + slot];
  const auto now =
      static_cast<uint32_t>(event.number / (fills ? x_full_a_block_ : linear1_slices_));
  if (now == known) return;
  const bool cleared = now < known;
  known = now;
  uint32_t& occupied = occupied_[rank];
  if (cleared) {
    occupied = 0;
    return;
  }
  if (fills)
    ++occupied;
  else if (occupied > 0)
    --occupied;
  seen_.set(kFirstRing + (now - 1) % 2 * kRingFills + std::min(occupied, kRingFills - 1));
  seen_.set(kFirstLap + std::min(now, kLapSignals - 1));
}

Signals SignalObserver::signals() const {
  Signals all = seen_;
  for (uint32_t step = 0; step < kNumSteps; ++step) {
    if (counts_[step] == 0) continue;
    const auto power = static_cast<uint32_t>(std::bit_width(counts_[step]) - 1);
    all.set(kFirstCount + step * kStepCounts + std::min(power, kStepCounts - 1));
  }
  return all;
}

}  // namespace moetwin
