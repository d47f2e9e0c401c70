#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/routing.h"
#include "model/collect.h"

namespace moetwin {
namespace {

constexpr Shape kShape = {2, 4, 2, 128, 128, 4};
const std::vector<uint32_t> kTokens = {3, 2};

KernelPlan plan_of(bool taps) {
  KernelOptions options;
  options.sms_per_rank = 1;
  const PlanResult planned = make_plan(kShape, options, false, taps);
  REQUIRE(!planned.error);
  return planned.plan;
}

/// The experts of each (rank, token): expert 1 gets rows of both ranks, expert 3 none.
constexpr int32_t kRoutes[2][3][2] = {{{1, 0}, {1, 2}, {-1, 1}}, {{1, 1}, {0, kMaskedExpert}, {}}};

/// Buffers as a right launch leaves them, with a value of its own at each place that is read.
struct Buffers {
  KernelPlan plan;
  SymmetricLayout layout;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<std::vector<uint32_t>>> slots;  ///< [expert][source]: token * K + k

  explicit Buffers(bool taps)
      : plan(plan_of(taps)),
        layout(make_layout(kShape, plan)),
        bytes(kShape.ranks, std::vector<uint8_t>(layout.total, 0xFF)),
        slots(kShape.experts, std::vector<std::vector<uint32_t>>(kShape.ranks)) {
    for (uint32_t rank = 0; rank < kShape.ranks; ++rank) {
      for (uint32_t r = 0; r < kNumRegions; ++r)
        if (region_info(static_cast<Region>(r)).persistence == Persistence::ZeroBetween)
          std::fill_n(bytes[rank].begin() + static_cast<int64_t>(layout.offsets[r]),
                      layout.bytes[r], 0);
      // Descending: the table of a source is in no particular order.
      for (uint32_t flat = kTokens[rank] * kShape.topk; flat-- != 0;) {
        const int32_t expert = kRoutes[rank][flat / kShape.topk][flat % kShape.topk];
        if (expert >= 0) slots[static_cast<uint32_t>(expert)][rank].push_back(flat);
      }
    }
    for (uint32_t expert = 0; expert < kShape.experts; ++expert) fill_expert(expert);
    for (uint32_t rank = 0; rank < kShape.ranks; ++rank)
      for (uint32_t i = 0; i < kTokens[rank] * kShape.hidden; ++i)
        at<uint16_t>(rank, Region::Y, i) = static_cast<uint16_t>(1000 * rank + i);
  }

  template <class T>
  T& at(uint32_t rank, Region region, uint64_t element) {
    return *reinterpret_cast<T*>(bytes[rank].data() + layout.offset(region) + element * sizeof(T));
  }

  static uint32_t tag(uint32_t rank, uint32_t flat) { return 16 * rank + flat + 1; }

  void fill_expert(uint32_t expert) {
    const uint32_t rank = kShape.rank_of_expert(expert);
    const uint32_t local = kShape.local_expert(expert);
    std::vector<std::pair<uint32_t, uint32_t>> rows;  // source, flat; slot 0 of each, slot 1, ...
    for (uint32_t slot = 0; slot < kShape.slots_per_source(); ++slot)
      for (uint32_t source = 0; source < kShape.ranks; ++source)
        if (slot < slots[expert][source].size())
          rows.push_back({source, slots[expert][source][slot]});
    for (uint32_t source = 0; source < kShape.ranks; ++source) {
      const auto& mine = slots[expert][source];
      at<uint32_t>(rank, Region::RecvCount, recv_count_index(kShape, local, source)) =
          static_cast<uint32_t>(mine.size());
      for (uint32_t slot = 0; slot < mine.size(); ++slot)
        at<uint32_t>(rank, Region::SlotTable, slot_index(kShape, local, source, slot)) = mine[slot];
    }
    // Expert 0 (rank 0, local 0) has two rows: one block; local expert 1 starts at block 1.
    const uint32_t block = local;
    for (uint32_t row = 0; row < rows.size(); ++row) {
      const auto [source, flat] = rows[row];
      at<TokenSrcMetadata>(rank, Region::Metadata, block * plan.block_m + row) = {
          source, flat / kShape.topk, flat % kShape.topk, 0.25f * static_cast<float>(flat)};
      for (uint32_t i = 0; i < kShape.hidden; ++i)
        at<uint16_t>(source, Region::CombineRows,
                     combine_index(kShape, flat % kShape.topk, flat / kShape.topk, i)) =
            static_cast<uint16_t>(300 * tag(source, flat) + i);
      if (!plan.taps) continue;
      for (uint32_t i = 0; i < kShape.intermediate; ++i)
        at<uint8_t>(rank, Region::TapLinear1,
                    uint64_t{block * plan.block_m + row} * kShape.intermediate + i) =
            static_cast<uint8_t>(tag(source, flat) + i);
      for (uint32_t group = 0; group < kShape.linear1_scale_groups(); ++group)
        at<float>(rank, Region::TapLinear1Scales,
                  linear1_scale_index(block, kShape.linear1_scale_groups(), group, plan.block_m,
                                      row)) = static_cast<float>(10 * tag(source, flat) + group);
    }
  }

  RegionReader reader() const {
    return [this](uint32_t rank, Region region, uint64_t offset, uint64_t count, void* out) {
      REQUIRE(offset + count <= layout.size(region));
      std::memcpy(out, bytes[rank].data() + layout.offset(region) + offset, count);
    };
  }
  CollectedLayer collect() const { return collect_result(kShape, plan, kTokens, reader()); }
};

bool has(const std::vector<Finding>& findings, FindingClass kind, Step step, uint32_t rank) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.kind == kind && f.step == step && f.rank == rank;
  });
}

}  // namespace

TEST_CASE("collect: every stage comes out in canonical order, from where the layout says") {
  const Buffers buffers(true);
  const CollectedLayer collected = buffers.collect();
  CHECK(collected.findings.empty());
  const LayerResult& result = collected.result;
  REQUIRE(result.rows.size() == 8);
  REQUIRE(result.slots.size() == 8);
  CHECK(result.slots[2] == std::vector<uint32_t>{0, 2, 5});  // rank 0, local expert 1, source 0
  CHECK(result.slots[3] == std::vector<uint32_t>{0, 1});
  CHECK(result.slots[7].empty());
  uint64_t i = 0;
  for (uint32_t rank = 0; rank < kShape.ranks; ++rank)
    for (uint32_t flat = 0; flat < kTokens[rank] * kShape.topk; ++flat) {
      const int32_t expert = kRoutes[rank][flat / 2][flat % 2];
      if (expert < 0) continue;
      const uint32_t tag = Buffers::tag(rank, flat);
      const RoutedRow& row = result.rows[i];
      CHECK(row.rank == rank);
      CHECK(row.token == flat / 2);
      CHECK(row.k == flat % 2);
      CHECK(row.expert == static_cast<uint32_t>(expert));
      CHECK(row.weight == 0.25f * static_cast<float>(flat));
      CHECK(result.l1_codes[i * kShape.intermediate + 127] == static_cast<uint8_t>(tag + 127));
      CHECK(result.l1_scales[2 * i + 1] == static_cast<float>(10 * tag + 1));
      CHECK(result.l2[i * kShape.hidden + 127] == static_cast<uint16_t>(300 * tag + 127));
      ++i;
    }
  REQUIRE(result.y.size() == 5 * kShape.hidden);
  CHECK(result.y[3 * kShape.hidden] == 1000);
  CHECK(Buffers(false).collect().result.l1_codes.empty());
}

TEST_CASE("collect: a pool row that round-robin would place elsewhere is a mismatch") {
  Buffers buffers(true);
  // Expert 1 lies in block 1 of rank 0; its first rows are slot 0 of rank 0 and slot 0 of rank 1.
  std::swap(buffers.at<TokenSrcMetadata>(0, Region::Metadata, 64),
            buffers.at<TokenSrcMetadata>(0, Region::Metadata, 65));
  const auto findings = buffers.collect().findings;
  CHECK(findings.size() == 2);
  CHECK(has(findings, FindingClass::Mismatch, Step::PullMetadata, 0));
}

TEST_CASE("collect: broken slot tables and counts are told and do not break the reader") {
  SUBCASE("a slot that names no token") {
    Buffers buffers(true);
    buffers.at<uint32_t>(1, Region::SlotTable, slot_index(kShape, 0, 0, 0)) = 6;
    CHECK(has(buffers.collect().findings, FindingClass::Mismatch, Step::WriteIndex, 1));
  }
  SUBCASE("a slot twice") {
    Buffers buffers(true);
    buffers.at<uint32_t>(0, Region::SlotTable, slot_index(kShape, 1, 1, 0)) = 0;
    CHECK(has(buffers.collect().findings, FindingClass::Mismatch, Step::WriteIndex, 0));
  }
  SUBCASE("a count past the table") {
    Buffers buffers(true);
    buffers.at<uint32_t>(1, Region::RecvCount, 0) = 9;
    CHECK(has(buffers.collect().findings, FindingClass::Overflow, Step::WriteIndex, 1));
  }
  SUBCASE("counts past the pool") {
    Buffers buffers(true);
    for (uint32_t i = 0; i < 4; ++i) buffers.at<uint32_t>(0, Region::RecvCount, i) = 8;
    for (auto& bytes : buffers.bytes) REQUIRE(!bytes.empty());
    const CollectedLayer collected = buffers.collect();
    CHECK(collected.findings.size() <= kMaxCollectFindings);
    CHECK(!collected.findings.empty());
  }
}

TEST_CASE("collect: each must-be-zero region is checked on each rank") {
  for (uint32_t r = 0; r < kNumRegions; ++r) {
    const Region region = static_cast<Region>(r);
    if (region_info(region).persistence != Persistence::ZeroBetween) continue;
    Buffers buffers(true);
    CHECK(check_zero_words(kShape, buffers.plan, buffers.reader()).empty());
    buffers.bytes[1][buffers.layout.offset(region) + buffers.layout.size(region) - 1] = 1;
    const auto findings = check_zero_words(kShape, buffers.plan, buffers.reader());
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].kind == FindingClass::Stale);
    CHECK(findings[0].rank == 1);
    CHECK(findings[0].text.find(region_info(region).name) != std::string::npos);
  }
}

TEST_CASE("collect: traffic counts only what crosses between ranks") {
  const Buffers buffers(true);
  const Traffic traffic = buffers.collect().result.traffic;
  // Crossing rows: rank 0's one row for expert 2, rank 1's three rows for experts 0 and 1.
  CHECK(traffic.dispatch_bytes == 4 * (128 + 4));
  CHECK(traffic.combine_bytes == 4 * 2 * 128);
  CHECK(traffic.index_bytes == 4 * 8 + 4 * 4);
  CHECK(traffic.barriers == 3);
}

}  // namespace moetwin
