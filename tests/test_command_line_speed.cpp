// The command line where speed is the matter: bench, and runs without tile arithmetic.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/command_line_program.h"

using namespace moetwin;

TEST_CASE("command line: bench tensor_core gives ratios of rates measured in one run") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("bench tensor_core --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(keys(out) == std::set<std::string>{"ratio_to_eigen_float_gemm", "ratio_to_scalar",
                                           "eigen_simd", "eigen_gflops", "tile_gflops"});
  CHECK(out["tile_gflops"].get<double>() > 0);
  CHECK(out["ratio_to_scalar"].get<double>() > 1);
  CHECK(out["ratio_to_eigen_float_gemm"].get<double>() ==
        doctest::Approx(out["tile_gflops"].get<double>() / out["eigen_gflops"].get<double>()));
  CHECK(!out["eigen_simd"].get<std::string>().empty());
}

TEST_CASE("command line: bench control and cases give rates") {
  const ProgramDirectory dir;
  const nlohmann::json control = dir.run("bench control --json").json();
  CHECK(keys(control) == std::set<std::string>{"events_per_second", "stepped_events_per_second"});
  CHECK(control["events_per_second"].get<double>() > 1e5);
  const nlohmann::json cases = dir.run("bench cases --json").json();
  CHECK(keys(cases) ==
        std::set<std::string>{"simulated_cases_per_second", "naive_cases_per_second"});
  CHECK(cases["simulated_cases_per_second"].get<double>() > 0.1);
}

TEST_CASE("command line: bench checker gives the cost of a checked run") {
  const ProgramDirectory dir;
  const nlohmann::json out = dir.run("bench checker --json").json();
  CHECK(keys(out) == std::set<std::string>{"ratio", "ratio_to_one_step", "unchecked_seconds",
                                           "checked_seconds"});
  CHECK(out["ratio"].get<double>() > 1);
}

TEST_CASE("command line: --k-loop full steps through every block of K") {
  const ProgramDirectory dir;
  REQUIRE(dir.run("case small --out s.json").status == 0);
  const nlohmann::json whole = dir.run("run s.json --no-math --json").json();
  const nlohmann::json full = dir.run("run s.json --no-math --k-loop full --json").json();
  CHECK(full["events"].get<uint64_t>() > whole["events"].get<uint64_t>());
  CHECK(full["tiles"] == whole["tiles"]);
  const Ran ran = dir.run("run s.json --no-math --k-loop half");
  CHECK(ran.status == 2);
  CHECK(ran.err == "moetwin: --k-loop: 'half' is not full\n");
}

TEST_CASE("command line: a run without arithmetic may need what its protocol needs, not its data") {
  const ProgramDirectory dir;
  dir.write("wide.json", R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":16384,
                             "intermediate":16384,"max_tokens_per_rank":8}})");
  const Ran with_data = dir.run("run wide.json --max-memory 0.5");
  CHECK(with_data.status == 2);
  CHECK(with_data.one_line_of_error());
  const Ran tags = dir.run("run wide.json --no-math --max-memory 0.5 --json");
  CAPTURE(tags.err);
  REQUIRE(tags.status == 0);
  CHECK(tags.json()["rows_combined"] == 16);
  CHECK(tags.json()["peak_bytes"].get<uint64_t>() < uint64_t{1} << 28);
  CHECK(dir.run("run wide.json --no-math --max-memory 0.00001").status == 2);
}
