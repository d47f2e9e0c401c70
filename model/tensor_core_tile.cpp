// Cuts a tile into packed rows and panels of columns, and hands them to the loops in
// tensor_core_packed.h. Chain starts that the loops cannot hold go through the definition.
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <utility>
#include <vector>

#include "common/check.h"
#include "model/tensor_core.h"
#include "model/tensor_core_packed.h"

namespace moetwin {
namespace {

using namespace tensor_core;

/// Rounds downward until it goes out of scope. The arithmetic inside is behind a call through a
/// pointer, where a compiler cannot move it out of the scope.
class RoundDownward {
 public:
  RoundDownward() : before_(std::fegetround()) { std::fesetround(FE_DOWNWARD); }
  ~RoundDownward() { std::fesetround(before_); }
  RoundDownward(const RoundDownward&) = delete;
  RoundDownward& operator=(const RoundDownward&) = delete;

 private:
  int before_;
};

/// Codes of one operand: `count` rows of A or columns of B, 32 * steps codes each.
struct Operand {
  const uint8_t* codes;
  size_t pitch;
  uint32_t count;

  const uint8_t* step(size_t index, size_t step) const {
    return codes + index * pitch + step * kTensorCoreK;
  }
};

struct PackedRows {
  hwy::AlignedFreeUniquePtr<RowStep[]> steps;
  std::vector<uint32_t> nan;
};

PackedRows pack_rows(const Operand& a, uint32_t steps) {
  PackedRows rows{hwy::AllocateAligned<RowStep>(std::max<size_t>(size_t{a.count} * steps, 1)),
                  std::vector<uint32_t>(a.count, 0)};
  MOETWIN_CHECK(rows.steps != nullptr);
  for (size_t row = 0; row < a.count; ++row) {
    for (size_t step = 0; step < steps; ++step) {
      pack_row_step(a.step(row, step), rows.steps[row * steps + step], rows.nan[row]);
    }
  }
  return rows;
}

/// Columns past the last count as zero codes.
void pack_panel(const Operand& b, size_t first, uint32_t steps, PanelStep* panel, uint32_t* nan) {
  alignas(64) uint32_t transposed[kStepGroups][kPanelColumns] = {};
  const size_t columns = std::min<size_t>(kPanelColumns, b.count - first);
  std::fill_n(nan, kPanelColumns, 0u);
  for (size_t step = 0; step < steps; ++step) {
    for (size_t column = 0; column < columns; ++column) {
      const uint8_t* codes = b.step(first + column, step);
      for (size_t group = 0; group < kStepGroups; ++group) {
        std::memcpy(&transposed[group][column], codes + group * kGroupCodes, kGroupCodes);
      }
    }
    pack_panel_step(&transposed[0][0], panel[step], nan);
  }
}

void multiply(const Operand& a, const Operand& b, uint32_t steps, bool from_acc, float* acc) {
  const PackedRows rows = pack_rows(a, steps);
  const auto panel = hwy::AllocateAligned<PanelStep>(std::max<size_t>(steps, 1));
  MOETWIN_CHECK(panel != nullptr);
  alignas(64) uint32_t panel_nan[kPanelColumns];
  std::vector<float> ragged;
  for (size_t first = 0; first < b.count; first += kPanelColumns) {
    pack_panel(b, first, steps, panel.get(), panel_nan);
    PanelJob job{rows.steps.get(), rows.nan.data(), a.count, panel.get(), panel_nan, steps,
                 from_acc,         acc + first,     b.count};
    const size_t columns = std::min<size_t>(kPanelColumns, b.count - first);
    if (columns < kPanelColumns) {
      ragged.resize(size_t{a.count} * kPanelColumns);
      for (size_t row = 0; from_acc && row < a.count; ++row) {
        std::copy_n(acc + row * b.count + first, columns, &ragged[row * kPanelColumns]);
      }
      job.acc = ragged.data();
      job.acc_pitch = kPanelColumns;
    }
    {
      const RoundDownward scope;
      multiply_panel(job);
    }
    for (size_t row = 0; columns < kPanelColumns && row < a.count; ++row) {
      std::copy_n(&ragged[row * kPanelColumns], columns, acc + row * b.count + first);
    }
  }
}

/// Whether the lanes can start a chain from this value.
bool starts_in_lanes(float value) {
  const float size = magnitude(value);
  return size == 0 || (size >= kSmallestStart && size <= kLargestStart);
}

}  // namespace

void tile_steps(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b, size_t b_pitch,
                uint32_t n, uint32_t steps, float* acc) {
  multiply({a, a_pitch, rows}, {b, b_pitch, n}, steps, false, acc);
}

void tile_steps_from(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b,
                     size_t b_pitch, uint32_t n, uint32_t steps, float* acc) {
  const Operand a_operand{a, a_pitch, rows};
  const Operand b_operand{b, b_pitch, n};
  if (steps == 0) return;
  std::vector<std::pair<size_t, float>> by_definition;
  for (size_t at = 0; at < size_t{rows} * n; ++at) {
    if (starts_in_lanes(acc[at])) continue;
    float value = acc[at];
    for (size_t step = 0; step < steps; ++step) {
      value = tensor_core_step(a_operand.step(at / n, step), b_operand.step(at % n, step), value);
    }
    by_definition.emplace_back(at, value);
    acc[at] = 0;
  }
  multiply(a_operand, b_operand, steps, true, acc);
  for (const auto& [at, value] : by_definition) acc[at] = value;
}

struct PackedTile::Packed {
  PackedRows rows;
  uint32_t num_rows;
  uint32_t n;
  uint32_t steps;
  hwy::AlignedFreeUniquePtr<PanelStep[]> panels;  ///< [panels, steps]
  hwy::AlignedFreeUniquePtr<uint32_t[]> nan;      ///< [panels, 16]
};

PackedTile::PackedTile(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b,
                       size_t b_pitch, uint32_t n, uint32_t steps) {
  const Operand columns{b, b_pitch, n};
  const size_t panels = (size_t{n} + kPanelColumns - 1) / kPanelColumns;
  packed_ = std::make_unique<Packed>(
      Packed{pack_rows({a, a_pitch, rows}, steps), rows, n, steps,
             hwy::AllocateAligned<PanelStep>(std::max<size_t>(panels * steps, 1)),
             hwy::AllocateAligned<uint32_t>(std::max<size_t>(panels * kPanelColumns, 1))});
  MOETWIN_CHECK(packed_->panels != nullptr && packed_->nan != nullptr);
  for (size_t panel = 0; panel < panels; ++panel)
    pack_panel(columns, panel * kPanelColumns, steps, &packed_->panels[panel * steps],
               &packed_->nan[panel * kPanelColumns]);
}

PackedTile::~PackedTile() = default;
PackedTile::PackedTile(PackedTile&&) noexcept = default;

void PackedTile::multiply(float* acc) const {
  const Packed& p = *packed_;
  // A few rows at a time, so that they stay in the second-level cache while the panels go by.
  constexpr uint32_t kRows = 32;
  alignas(64) float ragged[kRows * kPanelColumns];
  const RoundDownward scope;
  for (uint32_t row = 0; row < p.num_rows; row += kRows) {
    const uint32_t rows = std::min(kRows, p.num_rows - row);
    for (uint32_t first = 0; first < p.n; first += kPanelColumns) {
      const size_t panel = first / kPanelColumns;
      const uint32_t columns = std::min(kPanelColumns, p.n - first);
      float* place = acc + size_t{row} * p.n + first;
      const bool whole = columns == kPanelColumns;
      multiply_panel({&p.rows.steps[size_t{row} * p.steps], &p.rows.nan[row], rows,
                      &p.panels[panel * p.steps], &p.nan[panel * kPanelColumns], p.steps, false,
                      whole ? place : ragged, whole ? p.n : kPanelColumns});
      for (size_t r = 0; !whole && r < rows; ++r)
        std::copy_n(&ragged[r * kPanelColumns], columns, place + r * p.n);
    }
  }
}

void promote_tile(const float* acc, uint32_t rows, uint32_t n, const TileScales& scales,
                  float* final, size_t final_pitch) {
  for (size_t row = 0; row < rows; ++row) {
    tensor_core::promote_row(acc + row * n, n, scales.row[row * scales.row_stride], scales.column,
                             final + row * final_pitch);
  }
}

}  // namespace moetwin
