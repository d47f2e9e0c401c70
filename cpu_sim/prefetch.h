// Cache hints: a simulation of many SMs walks through far more state than a cache holds, in an
// order that the schedule knows a little ahead and the processor does not. Hints change no result.
#pragma once

#include <cstddef>

namespace moetwin {

/// Asks for the cache lines of [place, place + bytes), of none where `place` is null.
inline void prefetch_bytes(const void* place, size_t bytes) {
  constexpr size_t kLine = 64;
  if (place == nullptr) return;
  const char* first = static_cast<const char*>(place);
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(first + at);
}

}  // namespace moetwin
