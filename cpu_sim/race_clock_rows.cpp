#include "cpu_sim/race_clock_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_sim/race_clock_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moetwin {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Epochs = hn::CappedTag<uint32_t, kEpochLanes>;

template <class Store>
HWY_INLINE RowOrder for_larger(const uint32_t* first, const uint32_t* second, size_t epochs,
                               Store&& store) {
  const Epochs d;
  auto behind = hn::Zero(d);
  auto ahead = hn::Zero(d);
  for (size_t i = 0; i < epochs; i += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, first + i);
    const auto b = hn::LoadU(d, second + i);
    const auto larger = hn::Max(a, b);
    behind = hn::Or(behind, hn::Xor(larger, a));
    ahead = hn::Or(ahead, hn::Xor(larger, b));
    store(d, larger, i);
  }
  return {!hn::AllTrue(d, hn::Eq(behind, hn::Zero(d))),
          !hn::AllTrue(d, hn::Eq(ahead, hn::Zero(d)))};
}

RowOrder compare_in_lanes(const uint32_t* first, const uint32_t* second, size_t epochs) {
  return for_larger(first, second, epochs, [](auto, auto, size_t) {});
}

RowOrder raise_in_lanes(uint32_t* first, const uint32_t* second, size_t epochs) {
  return for_larger(first, second, epochs,
                    [=](auto d, auto larger, size_t i) { hn::StoreU(larger, d, first + i); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moetwin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetwin {
namespace {

HWY_EXPORT(compare_in_lanes);
HWY_EXPORT(raise_in_lanes);

}  // namespace

RowOrder compare_rows(const uint32_t* first, const uint32_t* second, size_t epochs) {
  return HWY_DYNAMIC_DISPATCH(compare_in_lanes)(first, second, epochs);
}

RowOrder raise_row(uint32_t* first, const uint32_t* second, size_t epochs) {
  return HWY_DYNAMIC_DISPATCH(raise_in_lanes)(first, second, epochs);
}

}  // namespace moetwin
#endif
