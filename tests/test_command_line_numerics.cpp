// The verb numerics as a user types it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model/numerics/variant.h"
#include "tests/command_line_program.h"

using namespace moetwin;

namespace {

nlohmann::json variant_of(const nlohmann::json& out, const std::string& name) {
  for (const nlohmann::json& variant : out["variants"])
    if (variant["name"] == name) return variant;
  return nullptr;
}

void make_case(const ProgramDirectory& dir, const std::string& more = "") {
  REQUIRE(dir.run("case tiny --set shape.hidden=256 " + more + " --out t.json").status == 0);
}

bool has_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("command line: numerics --help lists every variant") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("numerics --help");
  CHECK(ran.status == 0);
  for (const numerics::Variant& variant : numerics::all_variants())
    CHECK(ran.out.find("\n  " + variant.name + " ") != std::string::npos);
}

TEST_CASE("command line: numerics --json has every variant, the contract first") {
  const ProgramDirectory dir;
  make_case(dir);
  const Ran ran = dir.run("numerics t.json --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(keys(out) == std::set<std::string>{"tokens", "rows", "seeds", "seconds", "variants", "y"});
  REQUIRE(out["variants"].size() == numerics::all_variants().size());
  CHECK(out["variants"][0]["name"] == "contract");
  const std::set<std::string> expected = {"name",
                                          "summary",
                                          "relative_rms",
                                          "calc_diff",
                                          "bias",
                                          "relative_rms_ci95",
                                          "cosine",
                                          "max_abs",
                                          "relative_rms_requantised",
                                          "worst",
                                          "non_finite",
                                          "relative_rms_requantised_ci95",
                                          "saturated",
                                          "flushed",
                                          "relative_rms_total",
                                          "stages",
                                          "tokens",
                                          "relative_rms_total_ci95",
                                          "experts",
                                          "non_finite_codes",
                                          "differs_from_contract"};
  for (const nlohmann::json& variant : out["variants"]) CHECK(keys(variant) == expected);
  const nlohmann::json contract = variant_of(out, "contract");
  CHECK(contract["relative_rms"].get<double>() > 1e-3);
  CHECK(contract["relative_rms"].get<double>() < contract["relative_rms_total"].get<double>());
  CHECK(contract["differs_from_contract"] == 0);
  CHECK(contract["experts"].size() <= 4);
  uint64_t rows = 0;
  for (const nlohmann::json& expert : contract["experts"]) rows += expert["rows"].get<uint64_t>();
  CHECK(rows == out["rows"]);
  const nlohmann::json fp16 = variant_of(out, "accumulate-fp16");
  CHECK(fp16["non_finite"].get<uint64_t>() > 0);
  CHECK(variant_of(out, "combine-fp8")["relative_rms"] > contract["relative_rms"]);
}

TEST_CASE("command line: numerics agrees with run --reference on the contract's error") {
  const ProgramDirectory dir;
  make_case(dir);
  const nlohmann::json run = dir.run("run t.json --reference --json").json()["error"];
  const nlohmann::json contract =
      dir.run("numerics t.json --variant contract --json").json()["variants"][0];
  for (const char* key : {"relative_rms", "relative_rms_total", "calc_diff", "max_abs"})
    CHECK(contract[key].get<double>() == doctest::Approx(run[key].get<double>()).epsilon(1e-6));
  CHECK(contract["worst"] == run["worst"]);
}

TEST_CASE("command line: numerics gives means with confidence over seeds") {
  const ProgramDirectory dir;
  make_case(dir);
  const nlohmann::json one =
      dir.run("numerics t.json --variant sum-bf16 --json").json()["variants"][1];
  const Ran ran = dir.run("numerics t.json --variant sum-bf16 --seeds 4 --json");
  REQUIRE(ran.status == 0);
  const nlohmann::json four = ran.json()["variants"][1];
  CHECK(one["relative_rms_ci95"] == 0.0);
  CHECK(four["relative_rms_ci95"].get<double>() > 0);
  CHECK(four["relative_rms"] != one["relative_rms"]);
  const double distance = one["relative_rms"].get<double>() - four["relative_rms"].get<double>();
  CHECK(std::abs(distance) < 0.3 * four["relative_rms"].get<double>());
  CHECK(dir.run("numerics t.json --variant sum-bf16 --seeds 4").out.find("±") != std::string::npos);
}

TEST_CASE("command line: a dumped variant is recognised, another y is not") {
  const ProgramDirectory dir;
  make_case(dir);
  REQUIRE(dir.run("numerics t.json --variant sum-bf16 --dump y.safetensors").status == 0);
  dir.write("mine.json",
            R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
                "max_tokens_per_rank":8},"data":{"kind":"file","path":"y.safetensors"},
                "routing":{"kind":"file"}})");
  const Ran found = dir.run("numerics mine.json --y y.safetensors");
  CAPTURE(found.err);
  CHECK(found.status == 0);
  CHECK(found.out.find("y.safetensors: matches: sum-bf16 (") != std::string::npos);
  const nlohmann::json out = dir.run("numerics mine.json --y y.safetensors --json").json();
  CHECK(out["y"][0]["matches"] == nlohmann::json::array({"sum-bf16"}));
  CHECK(out["y"][0]["nearest"][0]["differing"] == 0);

  const Ran lost = dir.run("numerics mine.json --y y.safetensors --variant sum-fp16");
  CHECK(lost.status == 1);
  CHECK(lost.out.find("matches no variant") != std::string::npos);
  const size_t at = lost.out.find("repeat: ");
  REQUIRE(at != std::string::npos);
  std::string command = lost.out.substr(at + 8);
  command.pop_back();
  CHECK(dir.paste(command).status == 1);
}

TEST_CASE("command line: numerics refuses what it cannot do in one line") {
  const ProgramDirectory dir;
  make_case(dir);
  const auto refused = [&](const std::string& arguments) {
    const Ran ran = dir.run("numerics " + arguments);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.one_line_of_error());
    return ran.err;
  };
  CHECK(refused("t.json --variant exact") ==
        "moetwin: --variant: 'exact' is no variant (moetwin numerics --help lists them)\n");
  CHECK(refused("t.json --seeds 0") == "moetwin: --seeds: '0' is not an integer from 1 to 1000\n");
  CHECK(refused("t.json --picture k").find("no --plot is given") != std::string::npos);
  CHECK(refused("t.json --dump y.safetensors").find("--variant, and 0 are given") !=
        std::string::npos);
  CHECK(refused("t.json --y no.npy").find("no.npy: cannot be opened") != std::string::npos);
  CHECK(refused("t.json --plot none/e.svg").find("--plot: ") != std::string::npos);
  CHECK(refused("t.json --max-memory 0.001").find("0.00") != std::string::npos);
  REQUIRE(dir.run("numerics t.json --variant contract --dump y.safetensors").status == 0);
  dir.write("mine.json",
            R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
                "max_tokens_per_rank":8},"data":{"kind":"file","path":"y.safetensors"},
                "routing":{"kind":"file"}})");
  CHECK(refused("mine.json --seeds 2").find("--seeds: 2, but the values come from a data file") !=
        std::string::npos);
}

TEST_CASE("command line: without gnuplot a picture is refused before anything runs") {
  const ProgramDirectory dir;
  make_case(dir);
  const Ran ran = dir.run_with("PATH=/nonexistent", "numerics t.json --plot e.svg");
  CHECK(ran.status == 2);
  CHECK(ran.err == "moetwin: --plot: gnuplot is not installed (Debian package gnuplot-nox)\n");
  CHECK(dir.read("e.svg").empty());
  CHECK(dir.run("numerics t.json --plot e.svg --picture pie").status == 2);
}

TEST_CASE("command line: every kind of picture is an SVG that names what it shows" *
          doctest::skip(!has_gnuplot())) {
  const ProgramDirectory dir;
  make_case(dir);
  const auto drawn = [&](const std::string& kind) {
    const Ran ran = dir.run("numerics t.json --plot p.svg --picture " + kind);
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    const std::string svg = dir.read("p.svg");
    CHECK(svg.find("<svg") != std::string::npos);
    CHECK(svg.find("</svg>") != std::string::npos);
    return svg;
  };
  CHECK(drawn("errors").find("combine-pairwise") != std::string::npos);
  CHECK(drawn("k").find("reuse-rescale-ratio") != std::string::npos);
  CHECK(drawn("groups").find("heavy tail") != std::string::npos);
  CHECK(drawn("slots").find("routed slots of a token") != std::string::npos);
  CHECK(drawn("codes").find("l1-e5m2") != std::string::npos);
  CHECK(drawn("bits").find("contract and reuse-rescale") != std::string::npos);
}
