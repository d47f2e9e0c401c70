// Case files: what is read can be written, and is the same when it is read again.
#include "fuzz/targets/target.h"
#include "model/case.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  refuse_or_read([&] {
    const Case c = parse_case(text_of(data, size), "/cases");
    std::string text;
    try {
      text = case_to_json(c, "/cases");
    } catch (const InputError&) {
      return;  // a name that is not UTF-8
    }
    MOETWIN_CHECK(parse_case(text, "/cases") == c);
  });
  return 0;
}
