// Expert counts as .csv.
#include "fuzz/targets/target.h"
#include "model/trace_files.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  refuse_or_read([&] { parse_expert_counts(text_of(data, size), "counts", {"m", "d", 0}, 4); });
  return 0;
}
