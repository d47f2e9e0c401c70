// Places of the programs that are seen for the first time.
#include "cpu_sim/race_access.h"

#include "common/check.h"

namespace moetwin {

uint32_t SourceTable::add_place(const RaceSite& site, uint64_t key, uint32_t clock) {
  MOETWIN_CHECK(clock <= UINT16_MAX && places_.size() < kPlaces);
  MOETWIN_CHECK(agents_.size() <= UINT32_MAX / kPlaces);
  const auto put = [this](const Slot& slot) {
    size_t i = first_slot(slot.key);
    while (slots_[i].place != 0) i = next_slot(i);
    slots_[i] = slot;
  };
  if (2 * places_.size() > slots_.size()) {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.place != 0) put(slot);
  }
  put({key, static_cast<uint32_t>(places_.size())});
  places_.push_back({site.kind, site.who, site.step, site.scope, static_cast<uint16_t>(clock),
                     static_cast<uint16_t>(is_load(site.kind) ? 1 : 0)});
  return static_cast<uint32_t>(places_.size() - 1);
}

}  // namespace moetwin
