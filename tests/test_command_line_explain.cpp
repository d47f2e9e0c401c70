#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/number_formats.h"
#include "model/case.h"
#include "model/naive.h"
#include "tests/command_line_program.h"

namespace moetwin {
namespace {

std::vector<float> bf16(const uint16_t* bits, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(decode_bf16(bits[i]));
  return values;
}

}  // namespace

TEST_CASE("command line: explain follows a token's slots in words and as JSON") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  const Ran text = directory.run("explain c.json --token 1:3");
  REQUIRE(text.status == 0);
  for (const char* word : {"rank", "expert", "slot", "row", "block", "SM", "ring slot", "Linear1",
                           "Linear2", "y written", "control events"})
    CHECK_MESSAGE(text.out.find(word) != std::string::npos, word);
  CHECK(text.out.find("never") == std::string::npos);
  const Ran json = directory.run("explain c.json --token 1:3 --json");
  REQUIRE(json.status == 0);
  const auto object = json.json();
  CHECK(keys(object) ==
        std::set<std::string>{"launch", "schedule_string", "clock", "slots", "findings"});
  REQUIRE(object["slots"].size() == 2);
  for (const auto& slot : object["slots"]) {
    CHECK(slot["rank"] == 1);
    CHECK(slot["token"] == 3);
    CHECK(slot["expert_rank"] == slot["expert"].get<int>() / 2);
    const std::string line = "rank 1 token 3 k " + slot["k"].dump() + ": expert " +
                             slot["expert"].dump() + " on rank " + slot["expert_rank"].dump();
    CHECK(text.out.find(line) != std::string::npos);
    const std::string row = "row " + slot["row"].dump() + " of the pool, block " +
                            slot["block"].dump() + ", ring slot " + slot["ring_slot"].dump() +
                            " on lap " + slot["lap"].dump();
    CHECK(text.out.find(row) != std::string::npos);
    for (const auto& step : slot["steps"]) CHECK(!step["seen"].is_null());
    CHECK(slot["linear1"].size() == 2);
    CHECK(slot["linear2"].size() == 1);
  }
  // The row's own journey is the same one.
  const auto& slot = object["slots"][0];
  const Ran row = directory.run("explain c.json --json --row " + slot["expert_rank"].dump() + ":" +
                                slot["row"].dump());
  REQUIRE(row.json()["slots"].size() == 1);
  CHECK(row.json()["slots"][0] == slot);
}

TEST_CASE("command line: explain --values shows the values of the naive path") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  const Ran ran = directory.run("explain c.json --expert 2 --values --json --schedule timed");
  REQUIRE(ran.status == 0);
  const auto explained = ran.json();
  CHECK(explained["clock"] == "nanoseconds");
  const Case c = load_case(directory.path("c.json"));
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  const LayerResult naive = run_naive(problem);
  const Shape& shape = naive.shape;
  size_t compared = 0;
  for (const auto& slot : explained["slots"])
    for (size_t n = 0; n < naive.rows.size(); ++n) {
      const RoutedRow& row = naive.rows[n];
      if (slot["rank"] != row.rank || slot["token"] != row.token || slot["k"] != row.k) continue;
      ++compared;
      CHECK(slot["expert"] == row.expert);
      CHECK(slot["weight"].get<float>() == row.weight);
      const uint64_t token = row.rank * c.tokens[0] + row.token;
      const auto& values = slot["values"];
      CHECK(values["l2"].get<std::vector<float>>() ==
            bf16(&naive.l2[n * shape.hidden], shape.hidden));
      CHECK(values["y"].get<std::vector<float>>() ==
            bf16(&naive.y[token * shape.hidden], shape.hidden));
      for (uint32_t i = 0; i < shape.intermediate; ++i)
        CHECK(values["l1"][i].get<float>() ==
              decode_e4m3(naive.l1_codes[n * shape.intermediate + i]) *
                  naive.l1_scales[n * shape.linear1_scale_groups() + i / 64]);
      const RankInput& input = problem.ranks[row.rank];
      for (uint32_t i = 0; i < shape.hidden; ++i)
        CHECK(values["x"][i].get<float>() ==
              decode_e4m3(input.x_codes[row.token * shape.hidden + i]) *
                  input.x_scales[row.token * shape.hidden_blocks() + i / 128]);
    }
  CHECK(compared > 0);
  CHECK(compared == explained["slots"].size());
}

TEST_CASE("command line: explain of a run that hangs shows where the journey ends, and exits 1") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --set 'plant=drop PullPublishRow' --out c.json").status == 0);
  const Ran ran = directory.run("explain c.json --token 0:0");
  CHECK(ran.status == 1);
  CHECK(ran.out.find("row published") != std::string::npos);
  CHECK(ran.out.find("never") != std::string::npos);
  CHECK(ran.out.find("deadlock at LoadAWaitsForRows") != std::string::npos);
  CHECK(ran.out.find("y written") == std::string::npos);
}

TEST_CASE("command line: explain refuses what is not there with one line") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  for (const char* arguments :
       {"explain c.json", "explain c.json --token 0:0 --expert 1", "explain c.json --token 2:0",
        "explain c.json --token 0:8", "explain c.json --token 7", "explain c.json --expert 4",
        "explain c.json --row 0:99999999", "explain c.json --token 0:0 --launch 1",
        "explain c.json --token 0:0 --values --no-math", "explain c.json --block 0:-1"}) {
    CAPTURE(arguments);
    const Ran ran = directory.run(arguments);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.out.empty());
  }
}

}  // namespace moetwin
