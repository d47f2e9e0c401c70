// When a loop over data is given to a team of threads.
#pragma once

#include <omp.h>

#include <cstdint>

namespace moetwin {

/// Whether a loop that makes so many elements is worth a team. Waking one costs little on an idle
/// machine, but as much as a time slice where another program or another case has the cores.
inline bool worth_a_team(uint64_t elements) {
  constexpr uint64_t kElements = uint64_t{4} << 20;
  return elements >= kElements && !omp_in_parallel();
}

}  // namespace moetwin
