// Recorded routing as .jsonl.
#include "fuzz/targets/target.h"
#include "model/trace_files.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  refuse_or_read([&] { parse_trace_jsonl(text_of(data, size), "trace", {8, 2, 0}); });
  return 0;
}
