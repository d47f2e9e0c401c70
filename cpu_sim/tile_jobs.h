// Tile arithmetic, put off: the control timeline records what each tile multiplies, with copies of
// the operands as they were when the tensor core read them, and the values are worked out, for all
// recorded tiles at once and on all threads, when the first of them is asked for. No order and no
// rounding depends on when that is. Knows no agents and no memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/kernel_plan.h"
#include "cpu_sim/planted_rules.h"

namespace moetwin {

/// The accumulator of one 64 x 128 tile, as a list of what is still to be added to it.
struct TileJob {
  struct Block {
    uint32_t steps = 0;   ///< chained K=32 steps
    size_t a_offset = 0;  ///< into codes: [rows][32 * steps]
    size_t b_offset = 0;  ///< into codes: [128][32 * steps]
    float row_scales[kMathRows] = {};
    float even_scale = 0;  ///< weight scale of even 8-column chunks
    float odd_scale = 0;
    bool ready = false;  ///< the scales are set
  };

  uint32_t rows = 0;          ///< rows that are computed
  std::vector<float> values;  ///< [64][128], final
  std::vector<uint8_t> codes;
  std::vector<Block> blocks;
  size_t done = 0;  ///< blocks that are in the values
  bool queued = false;
};

/// Owns all tiles of a run and works them out.
class TileJobs {
 public:
  /// `fault`: a promotion fault to work under (planted_promotion.h).
  explicit TileJobs(uint32_t threads, LayerFault fault = LayerFault::None)
      : threads_(threads), fault_(fault) {}

  /// A tile of `rows` computed rows whose values are +0.
  TileJob* acquire(uint32_t rows);
  void release(TileJob* job);

  /// Adds a product to a tile: copies the operands now. `a` and `b` point at the first code of K,
  /// `pitch` bytes from row to row. Returns the block's number; it counts once it is made ready.
  uint32_t multiply(TileJob& job, const uint8_t* a, const uint8_t* b, size_t pitch, uint32_t steps);

  /// The block's scales are set: it may be worked out.
  void make_ready(TileJob& job, uint32_t block);

  /// Works out what is ready of a tile; of all tiles, on all threads, when enough has come together
  /// to be worth it. Which of the two changes no value.
  void finish(TileJob& job);

 private:
  void finish_all();
  void finish_rows(TileJob& job, uint32_t first_row, uint32_t rows) const;
  /// Forgets what has been worked out; true if nothing is left.
  bool retire(TileJob& job);

  uint32_t threads_;
  LayerFault fault_;
  uint64_t ready_work_ = 0;  ///< multiply-accumulates of ready blocks, roughly
  std::vector<std::unique_ptr<TileJob>> all_;
  std::vector<TileJob*> free_;
  std::vector<TileJob*> pending_;
};

}  // namespace moetwin
