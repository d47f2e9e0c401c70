// Schedules and replay strings: what is read prints as a string that is read alike.
#include "cpu_sim/schedule.h"

#include "fuzz/targets/target.h"

using namespace moetwin;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  if (text.substr(0, 8) == "replay:@") return 0;  // names a file
  refuse_or_read([&] {
    const Schedule schedule = parse_schedule(text);
    MOETWIN_CHECK(parse_schedule(to_string(schedule)) == schedule);
  });
  return 0;
}
