// What the command line says of cases with several launches: which one a finding is of, and how
// long each takes by the timed schedule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "cpu_sim/timed_launch.h"
#include "model/case.h"
#include "model/checked_plan.h"
#include "model/wait_report.h"
#include "tests/command_line_program.h"

namespace moetwin {
namespace {

/// The first of its launches has no token, so only the others can go wrong.
constexpr const char* kThreeLaunches = R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,
  "intermediate":256,"max_tokens_per_rank":16},"kernel":{"sms_per_rank":1},
  "launches":[{"tokens":[0,0]},{"tokens":[9,4]},{"tokens":[3,16]}])";

std::string three_launches(const std::string& more = {}) {
  return std::string(kThreeLaunches) + more + "}";
}

}  // namespace

TEST_CASE("command line: a finding names its launch, and explain shows that one") {
  const ProgramDirectory directory;
  directory.write("c.json", three_launches(R"(,"plant":"drop PullFence")"));
  const Ran json = directory.run("run c.json --check --json");
  CHECK(json.status == 1);
  const auto findings = json.json()["findings"];
  REQUIRE(!findings.empty());
  CHECK(findings[0]["launch"] == 1);
  const Ran text = directory.run("run c.json --check");
  const std::string first = "finding 1  " + findings[0]["class"].get<std::string>() + " at " +
                            findings[0]["step"].get<std::string>() + ", launch 1, rank ";
  CHECK(text.out.find(first) != std::string::npos);
  const Ran explored = directory.run("explore c.json --check --policy slow --schedules 1 --json");
  REQUIRE(!explored.json()["findings"].empty());
  CHECK(explored.json()["findings"][0]["launch"] == 1);

  const Ran explained = directory.run("explain c.json --token 0:2 --check --json");
  CHECK(explained.json()["launch"] == 1);
  CHECK(explained.json()["findings"][0]["text"] == findings[0]["text"]);
  CHECK(directory.run("explain c.json --token 0:2 --check --json --launch 2").json()["launch"] ==
        2);
}

TEST_CASE("command line: explain shows the last launch of a run without findings") {
  const ProgramDirectory directory;
  directory.write("c.json", three_launches());
  const Ran ran = directory.run("explain c.json --token 0:2 --check --json");
  CHECK(ran.status == 0);
  CHECK(ran.json()["launch"] == 2);
}

TEST_CASE("command line: a finding of a case with one launch names none") {
  const ProgramDirectory directory;
  directory.write("c.json", R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,
    "intermediate":256,"max_tokens_per_rank":16},"kernel":{"sms_per_rank":1},
    "plant":"drop PullFence"})");
  const Ran json = directory.run("run c.json --check --json");
  REQUIRE(!json.json()["findings"].empty());
  CHECK(!json.json()["findings"][0].contains("launch"));
  CHECK(directory.run("run c.json --check").out.find(", launch ") == std::string::npos);
}

TEST_CASE("wait_report: agents name their launch where the ranks are in different ones") {
  const Case c = parse_case(three_launches(), "");
  const KernelPlan plan = checked_plan(c.shape, c.kernel, false, false);
  std::vector<WaitingAgent> agents(size_t{2} * plan.sms * kAgentsPerCta);
  for (size_t i = 0; i < agents.size(); ++i) agents[i].launch = i < agents.size() / 2 ? 1u : 0u;
  agents[0].state = AgentState::Waits;
  agents[0].step = Step::RankWait;
  const std::string ahead = explain_waits(plan, 2, agents).at(0).text;
  CHECK(ahead.find("rank 0 SM 0 dispatch 0 (launch 1)") == 0);
  CHECK(ahead.find("rank 1 SM 0 dispatch 0 (launch 0) has left") != std::string::npos);
  for (WaitingAgent& agent : agents) agent.launch = 1;
  CHECK(explain_waits(plan, 2, agents).at(0).text.find("(launch") == std::string::npos);
}

TEST_CASE("command line: run --schedule timed tells how long each launch takes") {
  const ProgramDirectory directory;
  directory.write("c.json", three_launches());
  const Case c = parse_case(three_launches(), "");
  const auto in_all = static_cast<double>(run_timed(c).nanoseconds) / 1000;
  for (const char* more : {"", " --no-math"}) {
    const auto out = directory.run(std::string("run c.json --schedule timed --json") + more).json();
    REQUIRE(out["timed_us"].size() == 3);
    double sum = 0;
    for (const auto& launch : out["timed_us"]) {
      CHECK(launch.get<double>() > 1);
      sum += launch.get<double>();
    }
    // With arithmetic the stages that are kept are written to memory as well.
    CHECK(std::abs(sum - in_all) < (*more == 0 ? 0.05 : 1e-6) * in_all);
    // No rows, no tiles.
    CHECK(out["timed_us"][0] < out["timed_us"][1]);
  }
  CHECK(!directory.run("run c.json --json").json().contains("timed_us"));

  const Ran text = directory.run("run c.json --schedule timed --no-math");
  CHECK(text.out.find(fmt::format("predicted  {:.1f} us", in_all)) != std::string::npos);
  CHECK(text.out.find("launch 2   ") != std::string::npos);
}

}  // namespace moetwin
