// The memory of the simulated machine as an agent sees it: typed loads, stores and adds of global
// and shared memory, waits on words, and the map of the peers' memory. Every access is checked
// against its region, what it reads must have been written, and the race checker is told of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "cpu_sim/sim_agent.h"

namespace moetwin {

class SimMemory : public SimAgent {
 public:
  SimMemory(Simulation& sim, Agent& agent) : SimAgent(sim, agent), stamp_(sim.stamp(agent)) {}

  template <class T>
  Global<T> region(Region region) const {
    return {pack_address(agent_.rank, static_cast<uint32_t>(region), 0)};
  }
  Global<float> w1_scales() const { return {pack_address(agent_.rank, kW1ScalesRegion, 0)}; }
  Global<float> w2_scales() const { return {pack_address(agent_.rank, kW2ScalesRegion, 0)}; }
  template <class T>
  Global<T> remote(Global<T> place, uint32_t rank) const {
    return {pack_address(rank, address_region(place.address), address_offset(place.address))};
  }

  template <class T>
  T load(Global<T> from, Step step = Step::None) {
    cost(sim_.costs().global_access / kWarpLanes);
    if (checker_) notes_.read(race_range(from, sizeof(T)), lane_, step);
    if (watched(from.address)) sim_.synced(sim_.id_of(agent_), step, SyncOp::Read, from.address, 0);
    sim_.touched(agent_, step, DataOp::Load, from.address);
    return peek(from, step);
  }
  template <class T>
  T load(Shared<T> from, Step step = Step::None) {
    if (checker_) notes_.read(race_range(from, sizeof(T)), lane_, step);
    return peek(from, step);
  }
  template <class T>
  void store(Global<T> to, T value, Step step) {
    if (!spared(to.address) && dropped(step)) return;
    if (checker_) notes_.write(race_range(to, sizeof(T)), lane_, step);
    poke(to, value, step);
    sim_.touched(agent_, step, DataOp::Store, to.address, &value);
    if constexpr (std::is_integral_v<T>)
      if (watched(to.address))
        sim_.synced(sim_.id_of(agent_), step, SyncOp::Write, to.address, value);
  }
  template <class T>
  void store(Shared<T> to, T value, Step step) {
    if (dropped(step)) return;
    if (checker_) notes_.write(race_range(to, sizeof(T)), lane_, step);
    poke(to, value, step);
    if constexpr (std::is_same_v<T, TaskEntry>)
      sim_.touched(agent_, step, DataOp::Store, sync_object_shared(agent_.cta, to.offset), &value);
  }
  template <class T>
  T fetch_add(Global<T> to, T value, Order order, Scope scope, Step step) {
    return add_word(to, value, order, scope, step, SyncOp::Fetch);
  }
  template <class T>
  T fetch_add(Shared<T> to, T value, Order order, Scope scope, Step step) {
    return add_word(to, value, order, scope, step, SyncOp::Fetch);
  }
  template <class T>
  void reduce_add(Global<T> to, T value, Order order, Scope scope, Step step) {
    add_word(to, value, order, scope, step, SyncOp::Add);
  }
  template <class T>
  void reduce_add(Shared<T> to, T value, Order order, Scope scope, Step step) {
    add_word(to, value, order, scope, step, SyncOp::Add);
  }
  void wait_until(Global<uint32_t> word, Awaited awaited, Scope scope, Step step);
  void bound(uint32_t index, uint64_t limit, Step step, uint32_t expert);

 protected:
  template <class T>
  RaceRange race_range(Global<T> place, uint64_t bytes) const {
    return sim_.race_range(place.address, bytes);
  }
  template <class T>
  RaceRange race_range(Shared<T> place, uint64_t bytes) const {
    return sim_.race_range(agent_, place.offset, bytes);
  }

  // The same without telling the checker.
  template <class T>
  T peek(Global<T> from, Step step) {
    if constexpr (std::is_same_v<T, float>) {
      if (address_region(from.address) >= kNumRegions)
        return sim_.weight_scale(agent_, from.address, step, lane_);
      if (!math() && address_region(from.address) == static_cast<uint32_t>(Region::TokenScales))
        return token_scale_tag(from.address);
    }
    T value;
    std::memcpy(&value, readable(from.address, sizeof(T), alignof(T), step), sizeof(T));
    return value;
  }
  template <class T>
  T peek(Shared<T> from, Step step) {
    T value;
    std::memcpy(&value, readable_shared(from.offset, sizeof(T), alignof(T), step), sizeof(T));
    return value;
  }
  template <class T>
  void poke(Global<T> to, T value, Step step) {
    cost(sim_.costs().shared_access);
    std::memcpy(writable(to.address, sizeof(T), alignof(T), step), &value, sizeof(T));
    if constexpr (sizeof(T) == 4) notify(to.address, std::bit_cast<uint32_t>(value), Scope::Cta);
  }
  template <class T>
  void poke(Shared<T> to, T value, Step step) {
    std::memcpy(writable_shared(to.offset, sizeof(T), alignof(T), step), &value, sizeof(T));
  }

  const uint8_t* readable(uint64_t address, uint64_t bytes, uint64_t alignment, Step step) {
    const uint8_t* data = sim_.global_bytes(agent_, address, bytes, alignment, step, lane_);
    const PoisonedBytes& memory = sim_.rank(address_rank(address)).memory;
    if (!memory.stamped(sim_.memory_offset(address), bytes, stamp_)) [[unlikely]]
      undefined_global(address, bytes, step);
    return data;
  }
  uint8_t* writable(uint64_t address, uint64_t bytes, uint64_t alignment, Step step) {
    uint8_t* data = sim_.global_bytes(agent_, address, bytes, alignment, step, lane_);
    const Stamp stamp = kLastingRegion[address_region(address)] ? kLastingStamp : stamp_;
    sim_.rank(address_rank(address)).memory.set_stamps(sim_.memory_offset(address), bytes, stamp);
    return data;
  }
  const uint8_t* readable_shared(uint32_t offset, uint32_t bytes, uint32_t alignment, Step step) {
    const uint8_t* data = sim_.shared_bytes(agent_, offset, bytes, alignment, step, lane_);
    if (!cta_.shared.stamped(offset, bytes, stamp_)) [[unlikely]]
      undefined_shared(offset, bytes, step);
    return data;
  }
  uint8_t* writable_shared(uint32_t offset, uint32_t bytes, uint32_t alignment, Step step) {
    uint8_t* data = sim_.shared_bytes(agent_, offset, bytes, alignment, step, lane_);
    cta_.shared.set_stamps(offset, bytes, stamp_);
    return data;
  }
  void undefined_global(uint64_t address, uint64_t bytes, Step step);
  void undefined_shared(uint32_t offset, uint32_t bytes, Step step);
  void notify(uint64_t address, uint32_t value, Scope scope) {
    sim_.word_changed(address, value, agent_.time, scope);
  }

 private:
  /// Whether a mutant that drops stores leaves those to this place alone.
  bool spared(uint64_t address) const {
    const Region only = sim_.mutant().region;
    return only != Region::Count && address_region(address) != static_cast<uint32_t>(only);
  }
  /// Whether the observer wants to know of plain accesses to a place: to words, not to payload.
  bool watched(uint64_t address) const {
    return sim_.observed() && address_region(address) < kNumRegions &&
           region_info(static_cast<Region>(address_region(address))).persistence !=
               Persistence::Launch;
  }
  template <class T>
  T add_word(Global<T> to, T value, Order order, Scope scope, Step step, SyncOp op) {
    if (dropped(step)) return T{0};
    weaken(order, scope, step);
    synchronised_ |= order != Order::Relaxed;
    if (order == Order::Release)
      trace(TraceKind::Arrive, step, TraceObject::Word, to.address, static_cast<uint32_t>(value));
    cost(sim_.costs().global_access);
    if (mutated(MutantKind::AddOne, step)) value = std::min(value, T{1});
    value += static_cast<T>(delta(MutantKind::Count, step));
    if (checker_) notes_.add(race_range(to, sizeof(T)), order, scope, lane_, step);
    const T old = peek(to, step);
    const T sum = static_cast<T>(old + value);
    std::memcpy(writable(to.address, sizeof(T), alignof(T), step), &sum, sizeof(T));
    sim_.synced(sim_.id_of(agent_), step, op, to.address, static_cast<uint64_t>(sum));
    if constexpr (sizeof(T) == 4) notify(to.address, std::bit_cast<uint32_t>(sum), scope);
    return old;
  }
  template <class T>
  T add_word(Shared<T> to, T value, Order order, Scope scope, Step step, SyncOp op) {
    if (checker_) notes_.add(race_range(to, sizeof(T)), order, scope, lane_, step);
    const T old = peek(to, step);
    poke(to, static_cast<T>(old + value), step);
    sim_.synced(sim_.id_of(agent_), step, op, sync_object_shared(agent_.cta, to.offset),
                old + value);
    return old;
  }
  float token_scale_tag(uint64_t address) const;

  const Stamp stamp_;  ///< of this launch
};

}  // namespace moetwin
