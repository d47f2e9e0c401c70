// Golden files: what is read can be written, and is the same when it is read again.
#include "fuzz/targets/target.h"
#include "model/golden_file.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  refuse_or_read([&] {
    const GoldenFile file = parse_golden(text_of(data, size), "golden");
    MOETWIN_CHECK(parse_golden(golden_text(file), "golden") == file);
  });
  return 0;
}
