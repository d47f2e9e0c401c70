// fuzz and shrink through the command line: options, exit statuses, JSON, campaigns that are killed
// and go on, and campaigns of several processes.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "model/case.h"
#include "tests/command_line_program.h"

using namespace moetwin;

namespace {

const std::set<std::string> kFuzzKeys = {"cases",   "seconds",        "findings",
                                         "rows",    "mean_rows",      "checked",
                                         "related", "coverage_pairs", "out"};

std::set<std::string> with(std::set<std::string> names, const std::string& more) {
  names.insert(more);
  return names;
}

/// What of a campaign's state must not depend on how it was run.
nlohmann::json lasting(const ProgramDirectory& dir, const std::string& campaign) {
  nlohmann::json state = nlohmann::json::parse(dir.read(campaign + "/campaign.json"));
  state.erase("seconds");
  return state;
}

}  // namespace

TEST_CASE("fuzz: the right program has no finding, and the object has the promised keys") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("fuzz --cases 120 --seed 3 --jobs 2 --out found --json");
  CHECK_MESSAGE(ran.status == 0, ran.out, ran.err);
  const nlohmann::json out = ran.json();
  CHECK(keys(out) == with(kFuzzKeys, "causes"));
  CHECK(out["cases"] == 120);
  CHECK(out["findings"] == 0);
  CHECK(out["mean_rows"].get<double>() > 30);
  CHECK(out["rows"].get<double>() == doctest::Approx(120 * out["mean_rows"].get<double>()));
  CHECK(out["coverage_pairs"].get<int>() > 20);
  CHECK(out["out"] == "found");
  CHECK(dir.run("fuzz --cases 1 --out found").status == 2);
}

TEST_CASE("fuzz: a planted fault is found, shrunk to a readable case and repeated") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("fuzz --plant F25c --no-math --cases 60 --seed 1 --out found --json");
  CHECK(ran.status == 1);
  const nlohmann::json cause = ran.json().at("causes").at(0);
  CHECK(keys(cause) ==
        std::set<std::string>{"class", "site", "role", "case", "times", "text", "file", "repeat"});
  const std::string file = cause.at("file").get<std::string>();
  CHECK(dir.run("shrink " + file + " --out small.json").status == 0);
  const Case small = load_case(dir.path("small.json"));
  CHECK(small.plant == "F25c");
  CHECK(small.shape.ranks <= 2);
  CHECK(small.shape.experts <= 4);
  uint32_t tokens = 0;
  for (const uint32_t count : small.tokens) tokens += count;
  CHECK(tokens <= 8);
  CHECK(dir.run("diff small.json").status == 1);
  const std::string repeat = cause.at("repeat").get<std::string>();
  CHECK(dir.run(repeat.substr(repeat.find(' ') + 1)).status == 1);
}

TEST_CASE("shrink: without arithmetic, by the command that a finding's text names") {
  const ProgramDirectory dir;
  const Ran found =
      dir.run("fuzz --plant F33f --no-math --check 1 --cases 60 --seed 1 --out found --json");
  const Ran shown =
      dir.run("fuzz --plant F33f --no-math --check 1 --cases 60 --seed 1 --out shown");
  CHECK(shown.out.find(".json --check --no-math --out small.json\n") != std::string::npos);
  const std::string file = found.json().at("causes").at(0).at("file").get<std::string>();
  const std::string text = dir.read(file.substr(0, file.size() - 5) + ".txt");
  const size_t at = text.find("smaller: moetwin shrink ");
  REQUIRE(at != std::string::npos);
  const size_t begin = at + std::string("smaller: moetwin ").size();
  const std::string command = text.substr(begin, text.find('\n', begin) - begin);
  CHECK(command.find(" --check --no-math --out ") != std::string::npos);
  const Ran ran = dir.run(command + " --json");
  CHECK(ran.status == 0);
  const std::string repeat = ran.json().at("repeat").get<std::string>();
  CHECK(repeat.find(" --no-math --check") != std::string::npos);
  const Ran again = dir.run(repeat.substr(repeat.find(' ') + 1) + " --json");
  CHECK(again.status == 1);
  CHECK(again.json().at("findings").at(0).at("class") == ran.json().at("class"));
}

TEST_CASE("fuzz: a campaign that is killed keeps what it reported and goes on to the same end") {
  const ProgramDirectory dir;
  const std::string options = " --plant F22b --no-math --seed 2 --jobs 1 --relations 0";
  const Ran cut =
      dir.run_with("timeout -s KILL 3", "fuzz --cases 1000000 --out cut --json" + options);
  // The last object a second that was printed: what it counts is on disk.
  const size_t last = cut.err.rfind('{');
  REQUIRE(last != std::string::npos);
  const auto reported = nlohmann::json::parse(cut.err.substr(last, cut.err.find('\n', last) - last))
                            .at("findings")
                            .get<size_t>();
  size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path("cut/findings"))) {
    if (entry.path().extension() != ".json") continue;
    ++kept;
    CHECK(load_case(entry.path().string()).plant == "F22b");
  }
  CHECK(kept >= reported);
  const uint64_t end = lasting(dir, "cut").at("next").get<uint64_t>() + 400;
  const std::string cases = " --cases " + std::to_string(end);
  dir.run("fuzz --resume cut --jobs 2" + cases);
  dir.run("fuzz --out whole" + cases + options);
  CHECK(lasting(dir, "whole").at("next") == end);
  CHECK(lasting(dir, "cut") == lasting(dir, "whole"));
}

TEST_CASE("fuzz: one case again, by seed and by draws") {
  const ProgramDirectory dir;
  const Ran by_seed = dir.run("fuzz --repeat seed:1:7");
  CHECK(by_seed.status == 0);
  CHECK(by_seed.err == "no finding\n");
  CHECK(parse_case(by_seed.out, "").shape.ranks <= 4);
  const Ran by_draws = dir.run("fuzz --repeat draws:0");
  CHECK(parse_case(by_draws.out, "").shape.ranks == 1);
}

TEST_CASE("fuzz, shrink: bad usage is one line that names the option") {
  const ProgramDirectory dir;
  dir.write("fine.json", R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,
      "intermediate":128,"max_tokens_per_rank":1}})");
  const struct {
    const char* command;
    const char* named;
  } cases[] = {
      {"fuzz --seed 1", "--cases"},
      {"fuzz --cases 0", "--cases"},
      {"fuzz --cases 1 --seed x", "--seed"},
      {"fuzz --cases 1 --left dpu", "--left"},
      {"fuzz --cases 1 --left naive --right naive --no-math", "--no-math"},
      {"fuzz --cases 1 --plant F99", "--plant"},
      {"fuzz --cases 1 --check 2", "--check"},
      {"fuzz --cases 1 --relations x", "--relations"},
      {"fuzz --cases 1 --profile huge", "--profile"},
      {"fuzz --resume nowhere --cases 1", "--resume"},
      {"fuzz --repeat abc", "--repeat"},
      {"shrink fine.json", "--out"},
      {"shrink fine.json --out small.json", "CASE"},
      {"shrink fine.json --out small.json --runs 0", "--runs"},
      {"shrink fine.json --out s.json --left naive --right naive --no-math", "--no-math"},
      {"shrink nowhere.json --out small.json", "nowhere.json"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.command);
    const Ran ran = dir.run(one.command);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.err.find(one.named) != std::string::npos);
  }
}

#ifdef MOETWIN_MPIRUN
TEST_CASE("fuzz: two processes under mpirun are one campaign") {
  const ProgramDirectory dir;
  const std::string options = "fuzz --plant F25c --no-math --cases 600 --seed 4 --jobs 1 --out ";
  CHECK(dir.run(options + "alone").status == 1);
  const Ran both = dir.run_with(MOETWIN_MPIRUN " --allow-run-as-root --oversubscribe -n 2",
                                options + "both --json");
  CHECK_MESSAGE(both.status != 0, both.err);
  CHECK(both.json()["cases"] == 600);
  CHECK(lasting(dir, "both") == lasting(dir, "alone"));
}
#endif
