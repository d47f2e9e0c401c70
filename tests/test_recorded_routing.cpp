// A whole recorded layer: the routing of 8,192 real tokens, through the program as a user runs it.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/command_line_program.h"
#include "tests/paths.h"

namespace moetwin {

TEST_CASE("recorded routing: eight ranks agree with the naive path below 4 GiB [slow]") {
  const ProgramDirectory dir;
  const nlohmann::json c = {
      {"shape",
       {{"ranks", 8},
        {"experts", 64},
        {"topk", 8},
        {"hidden", 512},
        {"intermediate", 256},
        {"max_tokens_per_rank", 1024}}},
      {"routing", {{"kind", "trace"}, {"path", test_data("derived_topk_olmoe_arxiv_layer15.csv")}}},
      {"schedule", "random:1"}};
  dir.write("recorded.json", c.dump());
  const Ran ran = dir.run("diff recorded.json --left sim --right naive --max-memory 4");
  CAPTURE(ran.out);
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  rusage children{};
  REQUIRE(getrusage(RUSAGE_CHILDREN, &children) == 0);
  CHECK(children.ru_maxrss < int64_t{4} << 20);  // KiB
}

}  // namespace moetwin
