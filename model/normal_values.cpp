// Normal values in vector lanes of 64 bits, the instruction set chosen at run time (Highway). Each
// lane does to its own counter what normal_sum() does.
#include "model/normal_values.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/normal_values.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moetwin {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
template <class D, class V = hn::Vec<D>>
HWY_INLINE V rounded(D d64, V x, uint32_t multiplier) {
  const hn::Repartition<uint32_t, D> d32;
  x = hn::Xor(x, hn::ShiftRight<29>(x));
  const V product = hn::MulEven(hn::BitCast(d32, x), hn::Set(d32, multiplier));
  return hn::Xor(product, hn::And(x, hn::Set(d64, 0xFFFFFFFF00000000u)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V swapped_halves(D d64, V x) {
  const hn::Repartition<uint32_t, D> d32;
  return hn::BitCast(d64, hn::Shuffle2301(hn::BitCast(d32, x)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V pair_sums(D d64, V x) {
  const V mask = hn::Set(d64, 0x0000FFFF0000FFFFu);
  return hn::Add(hn::And(x, mask), hn::And(hn::ShiftRight<16>(x), mask));
}

/// Each counter's sum of eight uniforms, in both 32-bit halves of its lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V uniform_sums(D d64, V x) {
  x = rounded(d64, x, detail::kNormalMultipliers[0]);
  x = rounded(d64, x, detail::kNormalMultipliers[1]);
  V first = rounded(d64, x, detail::kNormalMultipliers[2]);
  V second = hn::Xor(swapped_halves(d64, x), hn::Set(d64, detail::kNormalFork));
  second = rounded(d64, second, detail::kNormalMultipliers[3]);
  first = hn::Xor(first, hn::ShiftRight<32>(first));
  second = hn::Xor(second, hn::ShiftRight<32>(second));
  const V sums = hn::Add(pair_sums(d64, first), pair_sums(d64, second));
  return hn::Add(sums, swapped_halves(d64, sums));
}
#endif

void fill_normal_lanes(const Key& key, uint64_t first, float scale, std::span<float> out) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint64_t> d64;
  const hn::Repartition<uint32_t, decltype(d64)> d32;
  const hn::Repartition<int32_t, decltype(d64)> di32;
  const hn::Repartition<float, decltype(d64)> df32;
  const size_t lanes = hn::Lanes(d64);
  HWY_ALIGN uint64_t offsets[HWY_MAX_BYTES / 8];
  for (size_t lane = 0; lane < lanes; ++lane)
    offsets[lane] = key.state() + (first + lane) * detail::kGoldenStep;
  auto low = hn::Load(d64, offsets);
  const auto stride = hn::Set(d64, lanes * detail::kGoldenStep);
  const auto mean = hn::Set(di32, detail::kNormalMean);
  for (; i + 2 * lanes <= out.size(); i += 2 * lanes) {
    const auto high = hn::Add(low, stride);
    const auto sums = hn::ConcatEven(d32, hn::BitCast(d32, uniform_sums(d64, high)),
                                     hn::BitCast(d32, uniform_sums(d64, low)));
    const auto centred = hn::Sub(hn::BitCast(di32, sums), mean);
    hn::StoreU(hn::Mul(hn::ConvertTo(df32, centred), hn::Set(df32, scale)), df32, out.data() + i);
    low = hn::Add(high, stride);
  }
#endif
  for (; i < out.size(); ++i) out[i] = static_cast<float>(normal_sum(key, first + i)) * scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace moetwin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetwin {
namespace {
HWY_EXPORT(fill_normal_lanes);
}  // namespace

void fill_normal(const Key& key, uint64_t first, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(fill_normal_lanes)(key, first, scale, out);
}

}  // namespace moetwin
#endif
