// What the libFuzzer targets share: bytes go to a reader that must either give a value or throw
// InputError, and nothing else. A target is one file with LLVMFuzzerTestOneInput; docs/fuzzing.md
// lists them and says how to run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/check.h"

namespace moetwin {

/// Calls `read`; a refusal is what a reader is there for.
template <class Read>
void refuse_or_read(Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    // One line that can be shown.
    MOETWIN_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace moetwin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
