// Full-size layers on the card: a sample of rows against the CPU bit for bit, and the whole y
// against the plain reference kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/gpu_session.h"

namespace moetwin {

struct FullSizeOptions {
  uint32_t block_m = 128;
  uint32_t block_n = 128;
  uint32_t sms = 132;             ///< of all ranks together
  uint32_t stages = 0;            ///< 0: as many as fit
  uint32_t ring_blocks = 0;       ///< 0: the smallest safe ring
  uint32_t experts_per_wave = 0;  ///< 0: all of them
  bool wave = false;
  double masked = 0;  ///< share of masked slots
};

/// The case behind NAME:TOKENS, NAME being flash (hidden 4096, intermediate 2048, top-6) or v3
/// (7168, 2048, top-8): one rank, 32 experts, activation limit 10; flash4 is flash on four virtual
/// ranks of TOKENS each. Throws InputError.
Case full_size_case(const std::string& text, const FullSizeOptions& options);

/// Runs NAME:TOKENS (of one rank) for each of `sizes`, prints a line each and returns how many were
/// wrong:
/// - a sampled row (of at least 64, or all) differs from the CPU at any stage;
/// - a value of Linear1 is further than one E4M3 step (and 2^-11 of its group's largest, which the
///   tensor core's 13 bits may cost) from the plain reference's;
/// - y is further than BF16 rounding from what the plain kernels make of the kernel's own Linear1:
///   a relative RMS above 2^-8, or a value off by more than one BF16 step of each value that is
///   rounded on its way (the token's rows and itself) and 2^-11 of each row's largest.
/// Against the plain reference end to end the distance is printed, not judged: where a value falls
/// into another E4M3 step, y moves by more than BF16 rounds.
uint64_t check_full_sizes(GpuSession& session, const std::vector<std::string>& sizes,
                          const FullSizeOptions& options);

}  // namespace moetwin
