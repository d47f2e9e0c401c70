// Choice sequences, and the cases that any sequence gives.
#include "fuzz/choices.h"

#include "fuzz/generator.h"
#include "fuzz/targets/target.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  refuse_or_read([&] {
    Choices draw = parse_choices("--repeat", text_of(data, size));
    const Case c = draw_case(draw, wide_profile());
    Choices again = parse_choices("--repeat", draws_to_string(draw.drawn()));
    MOETWIN_CHECK(draw_case(again, wide_profile()) == c);
  });
  return 0;
}
