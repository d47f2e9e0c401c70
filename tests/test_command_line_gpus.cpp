#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/command_line_program.h"

namespace moetwin {
namespace {

constexpr const char* kTwoRanks =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,)"
    R"("max_tokens_per_rank":4}})";

/// A port that tests of other programs are unlikely to use.
constexpr const char* kRank = "WORLD_SIZE=2 MASTER_PORT=42917";

}  // namespace

TEST_CASE("command line: --gpus is checked before a card is looked for") {
  const ProgramDirectory dir;
  dir.write("c.json", kTwoRanks);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"run c.json --backend gpu --gpus 0", "--gpus: '0' is not an integer from 1 to 16"},
      {"run c.json --backend gpu --gpus 17", "--gpus: '17' is not an integer from 1 to 16"},
      {"run c.json --backend gpu --gpus two", "--gpus: 'two' is not an integer from 1 to 16"},
      {"run c.json --gpus 2", "--gpus: is for --backend gpu, which is not asked for"},
      {"diff c.json --gpus 2", "--gpus: is for --backend gpu, which is not asked for"},
      {"golden record g.json c.json --gpus 2", "--gpus: is for --backend gpu"},
      {"run c.json --backend gpu --gpus 3",
       "shape.ranks: 2 is not 3, the number of cards of --gpus"},
      {"diff c.json --right gpu --gpus 3",
       "shape.ranks: 2 is not 3, the number of cards of --gpus"},
      {"golden record g.json c.json --backend gpu --gpus 3",
       "c.json: shape.ranks: 2 is not 3, the number of cards of --gpus"},
  };
  for (const auto& [given, text] : wrong) {
    const std::string arguments = given;
    CAPTURE(arguments);
    const Ran ran = dir.run(arguments);
    // Recording asks which card there is before it reads cases.
    if (ran.status == 3 && arguments.find("golden record g.json c.json --backend") == 0) continue;
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.one_line_of_error());
    CHECK(ran.err.find(text) != std::string::npos);
  }
}

TEST_CASE("command line: ranks in the environment are read for the gpu backend alone") {
  const ProgramDirectory dir;
  dir.write("c.json", kTwoRanks);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"RANK=0", "WORLD_SIZE: is not set, but RANK is"},
      {"RANK=5 WORLD_SIZE=2", "RANK: '5' is not an integer from 0 to 1"},
      {"RANK=0 WORLD_SIZE=3", "shape.ranks: 2 is not 3, the number of ranks that were started"},
  };
  for (const auto& [given, text] : wrong) {
    const std::string environment = given;
    CAPTURE(environment);
    const Ran ran = dir.run_with(environment, "run c.json --backend gpu");
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.err.find(text) != std::string::npos);
    CHECK(dir.run_with(environment, "run c.json").status == 0);
  }
  const Ran both =
      dir.run_with(std::string(kRank) + " RANK=0", "run c.json --backend gpu --gpus 4");
  CHECK(both.status == 2);
  CHECK(both.err.find("--gpus: 4 is not 2, the number of ranks that were started") !=
        std::string::npos);
}

TEST_CASE("command line: without a card a run on several ends at once, on rank 0 and the others") {
  const ProgramDirectory dir;
  dir.write("c.json", kTwoRanks);
  const Ran single = dir.run("run c.json --backend gpu");
  if (single.status != 3) return;  // where there is a card, nothing of this can be seen
  const Ran several = dir.run("run c.json --backend gpu --gpus 2");
  CHECK(several.status == 3);
  CHECK(several.out.empty());
  CHECK(several.err.find("no CUDA device: ") != std::string::npos);
#ifndef MOETWIN_HAVE_CUDA
  CHECK(dir.run_with(std::string(kRank) + " RANK=1", "run c.json --backend gpu").status == 3);
#endif
}

}  // namespace moetwin
