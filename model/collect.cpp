#include "model/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/check.h"

namespace moetwin {
namespace {

/// A routed row and where its Linear1 output lies.
struct PlacedRow {
  RoutedRow row;
  uint32_t expert_rank;
  uint64_t pool_row;  ///< logical

  friend bool operator<(const PlacedRow& a, const PlacedRow& b) {
    if (a.row.rank != b.row.rank) return a.row.rank < b.row.rank;
    if (a.row.token != b.row.token) return a.row.token < b.row.token;
    return a.row.k < b.row.k;
  }
};

template <class T>
std::vector<T> read_elements(const RegionReader& read, uint32_t rank, Region region, uint64_t first,
                             uint64_t elements) {
  std::vector<T> out(elements);
  if (elements != 0) read(rank, region, first * sizeof(T), elements * sizeof(T), out.data());
  return out;
}

class Collector {
 public:
  Collector(const Shape& shape, const KernelPlan& plan, const std::vector<uint32_t>& tokens,
            const RegionReader& read)
      : shape_(shape), plan_(plan), tokens_(tokens), read_(read) {}

  CollectedLayer run() {
    LayerResult& result = out_.result;
    result.shape = shape_;
    result.tokens = tokens_;
    const uint32_t local_experts = shape_.num_local_experts();
    result.slots.resize(uint64_t{shape_.experts} * shape_.ranks);
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      uint64_t first_block = 0;
      for (uint32_t expert = 0; expert < local_experts; ++expert)
        first_block += collect_expert(rank, expert, first_block);
    }
    std::sort(placed_.begin(), placed_.end());
    for (const PlacedRow& placed : placed_) result.rows.push_back(placed.row);
    collect_row_stages();
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      const auto y = read_elements<uint16_t>(read_, rank, Region::Y, 0,
                                             uint64_t{tokens_[rank]} * shape_.hidden);
      result.y.insert(result.y.end(), y.begin(), y.end());
    }
    result.traffic = kernel_traffic(shape_, plan_, result.rows);
    return std::move(out_);
  }

 private:
  void report(FindingClass kind, Step step, uint32_t rank, std::string text) {
    if (out_.findings.size() >= kMaxCollectFindings) return;
    out_.findings.push_back({kind, step, rank, 0, "host", std::move(text), ""});
  }

  /// The slots of one local expert by source rank, as the table holds them.
  std::vector<std::vector<uint32_t>> read_slots(uint32_t rank, uint32_t expert) {
    const auto counts = read_elements<uint32_t>(read_, rank, Region::RecvCount,
                                                recv_count_index(shape_, expert, 0), shape_.ranks);
    std::vector<std::vector<uint32_t>> slots(shape_.ranks);
    for (uint32_t source = 0; source < shape_.ranks; ++source) {
      uint64_t count = counts[source];
      if (count > shape_.slots_per_source()) {
        report(FindingClass::Overflow, Step::WriteIndex, rank,
               fmt::format("local expert {} of rank {} received {} slots from rank {}, its table "
                           "has {}",
                           expert, rank, count, source, shape_.slots_per_source()));
        count = shape_.slots_per_source();
      }
      slots[source] = read_elements<uint32_t>(read_, rank, Region::SlotTable,
                                              slot_index(shape_, expert, source, 0), count);
      auto sorted = slots[source];
      std::sort(sorted.begin(), sorted.end());
      check_slots(rank, expert, source, sorted);
      const uint64_t place =
          (uint64_t{rank} * shape_.num_local_experts() + expert) * shape_.ranks + source;
      out_.result.slots[place] = std::move(sorted);
    }
    return slots;
  }

  void check_slots(uint32_t rank, uint32_t expert, uint32_t source,
                   const std::vector<uint32_t>& sorted) {
    if (sorted.empty()) return;
    const std::string where = fmt::format(
        "the slot table of local expert {} on rank {} for source rank {}", expert, rank, source);
    const uint64_t routes = uint64_t{tokens_[source]} * shape_.topk;
    if (sorted.back() >= routes)
      report(FindingClass::Mismatch, Step::WriteIndex, rank,
             fmt::format("{} holds token * K + k = {}, but the rank has only {} routes", where,
                         sorted.back(), routes));
    const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
    if (twin != sorted.end())
      report(FindingClass::Mismatch, Step::WriteIndex, rank,
             fmt::format("{} holds token * K + k = {} twice", where, *twin));
  }

  /// Places an expert's rows, slot 0 of each source rank first, then slot 1, ...; returns how many
  /// pool blocks the expert has.
  uint64_t collect_expert(uint32_t rank, uint32_t expert, uint64_t first_block) {
    const auto slots = read_slots(rank, expert);
    uint64_t rows = 0;
    uint64_t most = 0;
    for (const auto& source : slots) {
      rows += source.size();
      most = std::max<uint64_t>(most, source.size());
    }
    const uint64_t first_row = first_block * plan_.block_m;
    if (first_row + rows > plan_.max_pool_rows()) {
      report(FindingClass::Overflow, Step::PoolTableBuild, rank,
             fmt::format("{} rows of local expert {} from pool row {} on pass the {} rows of the "
                         "pool of rank {}",
                         rows, expert, first_row, plan_.max_pool_rows(), rank));
      return 0;
    }
    const auto metadata =
        read_elements<TokenSrcMetadata>(read_, rank, Region::Metadata, first_row, rows);
    uint64_t row = 0;
    for (uint64_t slot = 0; slot < most; ++slot)
      for (uint32_t source = 0; source < shape_.ranks; ++source)
        if (slot < slots[source].size()) {
          place_row(rank, expert, first_row + row, source, slots[source][slot], metadata[row]);
          ++row;
        }
    return blocks_of(static_cast<uint32_t>(rows), plan_.block_m);
  }

  void place_row(uint32_t rank, uint32_t expert, uint64_t pool_row, uint32_t source, uint32_t flat,
                 const TokenSrcMetadata& metadata) {
    const uint32_t token = route_token(flat, shape_.topk);
    const uint32_t k = route_k(flat, shape_.topk);
    if (token >= tokens_[source]) return;  // check_slots() has reported it
    if (metadata.rank != source || metadata.token != token || metadata.k != k)
      report(FindingClass::Mismatch, Step::PullMetadata, rank,
             fmt::format("pool row {} of rank {} (local expert {}) should hold rank {} token {} k "
                         "{} by slot table and round-robin, its metadata names rank {} token {} "
                         "k {}",
                         pool_row, rank, expert, source, token, k, metadata.rank, metadata.token,
                         metadata.k));
    const uint32_t global_expert = rank * shape_.num_local_experts() + expert;
    placed_.push_back({{source, token, k, global_expert, metadata.weight}, rank, pool_row});
  }

  void collect_row_stages() {
    LayerResult& result = out_.result;
    const uint64_t rows = placed_.size();
    const uint32_t groups = shape_.linear1_scale_groups();
    result.l2.resize(rows * shape_.hidden);
    if (plan_.taps) {
      result.l1_codes.resize(rows * shape_.intermediate);
      result.l1_scales.resize(rows * groups);
    }
    for (uint64_t i = 0; i < rows; ++i) {
      const PlacedRow& placed = placed_[i];
      read_(placed.row.rank, Region::CombineRows,
            2 * combine_index(shape_, placed.row.k, placed.row.token, 0), 2 * shape_.hidden,
            result.l2.data() + i * shape_.hidden);
      if (!plan_.taps) continue;
      read_(placed.expert_rank, Region::TapLinear1, placed.pool_row * shape_.intermediate,
            shape_.intermediate, result.l1_codes.data() + i * shape_.intermediate);
      const uint32_t block = static_cast<uint32_t>(placed.pool_row / plan_.block_m);
      const uint32_t row = static_cast<uint32_t>(placed.pool_row % plan_.block_m);
      for (uint32_t group = 0; group < groups; ++group)
        read_(placed.expert_rank, Region::TapLinear1Scales,
              4 * linear1_scale_index(block, groups, group, plan_.block_m, row), 4,
              result.l1_scales.data() + i * groups + group);
    }
  }

  const Shape& shape_;
  const KernelPlan& plan_;
  const std::vector<uint32_t>& tokens_;
  const RegionReader& read_;
  std::vector<PlacedRow> placed_;
  CollectedLayer out_;
};

}  // namespace

CollectedLayer collect_result(const Shape& shape, const KernelPlan& plan,
                              const std::vector<uint32_t>& tokens, const RegionReader& read) {
  MOETWIN_CHECK(tokens.size() == shape.ranks);
  return Collector(shape, plan, tokens, read).run();
}

std::vector<Finding> check_zero_words(const Shape& shape, const KernelPlan& plan,
                                      const RegionReader& read) {
  const SymmetricLayout layout = make_layout(shape, plan);
  std::vector<Finding> findings;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    for (uint32_t r = 0; r < kNumRegions; ++r) {
      const Region region = static_cast<Region>(r);
      const RegionInfo info = region_info(region);
      if (info.persistence != Persistence::ZeroBetween) continue;
      const auto bytes = read_elements<uint8_t>(read, rank, region, 0, layout.size(region));
      const auto dirty =
          std::find_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0; });
      if (dirty == bytes.end()) continue;
      findings.push_back(
          {FindingClass::Stale, Step::CleanupClear, rank, 0, "host",
           fmt::format("element {} of {} on rank {} is not zero after the launch",
                       (dirty - bytes.begin()) / info.element_bytes, info.name, rank),
           ""});
    }
  return findings;
}

Traffic kernel_traffic(const Shape& shape, const KernelPlan& plan,
                       const std::vector<RoutedRow>& rows) {
  Traffic traffic;
  uint64_t crossing = 0;
  for (const RoutedRow& row : rows) crossing += shape.rank_of_expert(row.expert) != row.rank;
  const uint64_t counts = uint64_t{shape.experts} * (shape.ranks - 1) * sizeof(uint32_t);
  traffic.index_bytes = counts + crossing * (sizeof(uint32_t) + sizeof(float));
  traffic.dispatch_bytes = crossing * (shape.hidden + sizeof(float) * shape.hidden_blocks());
  traffic.combine_bytes = crossing * sizeof(uint16_t) * shape.hidden;
  const SymmetricLayout layout = make_layout(shape, plan);
  for (Region region : {Region::SendCount, Region::RecvCount, Region::SlotTable, Region::Metadata,
                        Region::Tokens, Region::TokenScales, Region::TopkWeights, Region::PoolX,
                        Region::PoolXScales, Region::CombineRows})
    traffic.buffer_bytes += shape.ranks * layout.size(region);
  traffic.barriers = 3;
  return traffic;
}

}  // namespace moetwin
