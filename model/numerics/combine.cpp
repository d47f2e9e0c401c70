#include "model/numerics/combine.h"

#include <algorithm>

#include "common/epilogue_math.h"
#include "model/numerics/quantisation.h"
#include "model/numerics/small_floats.h"

namespace moetwin::numerics {
namespace {

/// The rows as they arrive, with the routing weight applied where that is left to combine.
std::vector<std::vector<float>> arrived_rows(const CombineRule& rule,
                                             const std::vector<CombineSlot>& slots,
                                             uint32_t hidden) {
  const RowRule fp8_row;  // the contract's rule of x
  std::vector<std::vector<float>> rows;
  for (const CombineSlot& slot : slots) {
    std::vector<float> row(hidden);
    for (uint32_t i = 0; i < hidden; ++i) row[i] = decode_bf16(slot.row[i]);
    if (rule.fp8_rows) {
      const CodedRows coded = code_rows(fp8_row, row.data(), 1, hidden);
      for (uint32_t i = 0; i < hidden; ++i)
        row[i] = mul_rn(decode_e4m3(coded.codes[i]), coded.scales[i / kScaleBlock]);
    }
    if (slot.weight != 1)
      for (float& value : row) value = mul_rn(value, slot.weight);
    rows.push_back(std::move(row));
  }
  return rows;
}

void add_row(bool bf16_sum, const std::vector<float>& row, std::vector<float>& sum) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = add_rn(sum[i], row[i]);
    if (bf16_sum) sum[i] = round_to_bf16(sum[i]);
  }
}

/// Rows `begin` to `end` - 1 added as a balanced tree of neighbours.
std::vector<float> pairwise_sum(const std::vector<std::vector<float>>& rows, size_t begin,
                                size_t end) {
  if (end - begin == 1) return rows[begin];
  size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  std::vector<float> sum = pairwise_sum(rows, begin, begin + left);
  add_row(false, pairwise_sum(rows, begin + left, end), sum);
  return sum;
}

std::vector<float> sum_by_rank(const std::vector<CombineSlot>& slots,
                               const std::vector<std::vector<float>>& rows, uint32_t hidden) {
  std::vector<uint32_t> ranks;
  for (const CombineSlot& slot : slots) ranks.push_back(slot.expert_rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<float> sum(hidden, 0.0f);
  for (const uint32_t rank : ranks) {
    std::vector<float> part(hidden, 0.0f);
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i].expert_rank == rank) add_row(false, rows[i], part);
    for (float& value : part) value = round_to_bf16(value);
    add_row(false, part, sum);
  }
  return sum;
}

}  // namespace

void combine_token(const CombineRule& rule, const std::vector<CombineSlot>& slots, uint32_t hidden,
                   uint16_t* y) {
  std::vector<CombineSlot> ordered = slots;
  if (rule.order == CombineOrder::Expert) {
    std::stable_sort(
        ordered.begin(), ordered.end(),
        [](const CombineSlot& a, const CombineSlot& b) { return a.expert < b.expert; });
  }
  const std::vector<std::vector<float>> rows = arrived_rows(rule, ordered, hidden);
  std::vector<float> sum(hidden, 0.0f);
  if (rule.order == CombineOrder::Pairwise && !rows.empty()) {
    add_row(false, pairwise_sum(rows, 0, rows.size()), sum);
  } else if (rule.order == CombineOrder::Rank) {
    sum = sum_by_rank(ordered, rows, hidden);
  } else {
    for (const std::vector<float>& row : rows) add_row(rule.bf16_sum, row, sum);
  }
  for (uint32_t i = 0; i < hidden; ++i) y[i] = combine_result(sum[i]);
}

}  // namespace moetwin::numerics
