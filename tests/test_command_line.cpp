// The verbs of the command line as a user meets them: exit status, standard output, standard error.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/compare.h"
#include "model/digest.h"
#include "model/naive.h"
#include "model/result_tensors.h"
#include "tests/command_line_program.h"

using namespace moetwin;

namespace {

constexpr const char* kSmallCase = R"({
  "shape": {"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
            "max_tokens_per_rank":8},
  "tokens": [8,3],
  "routing": {"kind":"uniform","masked":0.2,"seed":5},
  "kernel": {"sms_per_rank":2,"stages":2},
  "launches": 2
})";

StageDigests naive_digests(const std::string& path) {
  const Case c = load_case(path);
  WeightCache cache;
  return digest_stages(run_naive(make_problem(c, c.launches.size() - 1, cache)));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "command line: every verb has help with examples, and verbs that are not there are not "
    "listed") {
  const ProgramDirectory dir;
  const Ran help = dir.run("--help");
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  for (const char* verb : {"run", "diff", "case", "golden", "explain", "report", "layout", "ring",
                           "explore", "faults", "fuzz", "shrink", "numerics", "bench"}) {
    CAPTURE(verb);
    CHECK(contains(help.out, std::string("\n  ") + verb + " "));
    const Ran ran = dir.run(std::string(verb) + " --help");
    CHECK(ran.status == 0);
    CHECK(ran.err.empty());
    CHECK(contains(ran.out, "Examples:\n"));
    CHECK(contains(ran.out, std::string("  moetwin ") + verb));
    CHECK(contains(ran.out, std::string("Usage: moetwin ") + verb));
  }
  for (const char* verb : {"record", "check", "vectors"}) {
    CAPTURE(verb);
    const Ran ran = dir.run(std::string("golden ") + verb + " --help");
    CHECK(ran.status == 0);
    CHECK(contains(ran.out, "Examples:\n"));
  }
  for (const char* verb : {"train", "serve"}) {
    CAPTURE(verb);
    CHECK(!contains(help.out, std::string("\n  ") + verb + " "));
    const Ran ran = dir.run(verb);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
  }
}

TEST_CASE("command line: case writes what run reads, and settings change any field") {
  const ProgramDirectory dir;
  for (const char* preset : {"tiny", "small", "mixtral", "v3", "v4_flash", "v4_pro"}) {
    CAPTURE(preset);
    const Ran printed = dir.run(std::string("case ") + preset);
    CHECK(printed.status == 0);
    CHECK(printed.err.empty());
    const Case c = parse_case(printed.out, "");
    const Ran written = dir.run(std::string("case ") + preset + " --out c.json");
    CHECK(written.status == 0);
    CHECK(contains(written.out, "moetwin run c.json"));
    CHECK(load_case(dir.path("c.json")) == c);
  }
  const Ran changed = dir.run(
      "case small --set shape.topk=4 tokens='[1,0,64,3]' "
      "--set routing='{\"kind\":\"zipf\",\"alpha\":1.5}' kernel.block_m=128 schedule=random:3 "
      "launches=2 world.padding=compute --out changed.json");
  CAPTURE(changed.err);
  REQUIRE(changed.status == 0);
  const Case c = load_case(dir.path("changed.json"));
  CHECK(c.shape.topk == 4);
  CHECK(c.tokens == std::vector<uint32_t>{1, 0, 64, 3});
  CHECK(c.routing.kind == RoutingKind::Zipf);
  CHECK(c.kernel.block_m == 128);
  CHECK(c.schedule == "random:3");
  CHECK(c.launches.size() == 2);
  CHECK(c.world.padding == Padding::Compute);
}

TEST_CASE("command line: run on the naive backend gives the library's digests, in both forms") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  const StageDigests want = naive_digests(dir.path("c.json"));
  const Ran ran = dir.run("run c.json --backend naive --reference --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(keys(out) == std::set<std::string>{"backend", "y", "stages", "launches", "schedule",
                                           "schedule_string", "state", "seconds", "threads",
                                           "error", "findings", "traffic"});
  CHECK(out["backend"] == "naive");
  CHECK(out["y"] == want.y);
  CHECK(keys(out["stages"]) == std::set<std::string>{"slots", "metadata", "l1", "l1_scales", "l2"});
  CHECK(out["stages"]["slots"] == want.slots);
  CHECK(out["stages"]["l2"] == want.l2);
  REQUIRE(out["launches"].size() == 2);
  CHECK(out["launches"][1]["y"] == want.y);
  CHECK(out["launches"][0]["y"] != want.y);
  CHECK(out["schedule"].is_null());
  CHECK(out["state"].is_null());
  CHECK(out["findings"].empty());
  CHECK(out["error"]["relative_rms"].get<double>() > 0);
  CHECK(out["error"]["relative_rms"].get<double>() < 0.1);
  CHECK(out["error"]["relative_rms_total"].get<double>() > 0);
  CHECK(keys(out["traffic"]) == std::set<std::string>{"index_bytes", "dispatch_bytes",
                                                      "combine_bytes", "buffer_bytes", "barriers"});

  const Ran screen = dir.run("run c.json --backend naive --reference");
  CHECK(screen.status == 0);
  CHECK(screen.err.empty());
  CHECK(contains(screen.out, want.y));
  CHECK(contains(screen.out, "top-2"));
  CHECK(contains(screen.out, "relative RMS"));
}

TEST_CASE(
    "command line: run on the simulator gives the same bits, and its schedule string repeats "
    "it") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  const StageDigests want = naive_digests(dir.path("c.json"));
  const Ran ran = dir.run("run c.json --schedule random:3 --reference --json");
  CAPTURE(ran.err);
  CAPTURE(ran.out);
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(out["y"] == want.y);
  CHECK(out["stages"]["l1"] == want.l1);
  CHECK(out["stages"]["l1_scales"] == want.l1_scales);
  CHECK(out["error"]["equal_to_naive"] == true);
  CHECK(out["schedule"].get<std::string>().size() == 32);
  CHECK(out["state"].get<std::string>().size() == 32);

  const std::string schedule = out["schedule_string"];
  const nlohmann::json again =
      dir.run("run c.json --threads 1 --json --schedule '" + schedule + "'").json();
  CHECK(again["schedule"] == out["schedule"]);
  CHECK(again["state"] == out["state"]);
  const nlohmann::json other = dir.run("run c.json --schedule random:4 --json").json();
  CHECK(other["schedule"] != out["schedule"]);
  CHECK(other["y"] == out["y"]);

  const Ran screen = dir.run("run c.json --reference");
  CHECK(screen.status == 0);
  CHECK(contains(screen.out, "equal bits at every stage"));
}

TEST_CASE("command line: run --no-math counts the protocol and has no y") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  const Ran ran = dir.run("run c.json --no-math --json");
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(out["y"].is_null());
  CHECK(out["stages"]["l2"].is_null());
  for (const char* key : {"events", "tiles", "invariants_checked", "peak_bytes", "rows_pulled"})
    CHECK_MESSAGE(out[key].get<uint64_t>() > 0, key);
  CHECK(out["rows_combined"] == 2 * (8 + 3));
}

TEST_CASE("command line: a deadlock is status 1, has no y, and its repeat command shows it again") {
  const ProgramDirectory dir;
  REQUIRE(dir.run("case small --set schedule=random:2 --out c.json").status == 0);
  std::string text = dir.read("c.json");
  const std::string ring = "\"scheduler\":\"ring\"";
  REQUIRE(contains(text, ring));
  dir.write("c.json", text.replace(text.find(ring), ring.size(), ring + ",\"ring_blocks\":1"));
  CHECK(dir.run("run c.json").status == 2);
  const Ran ran = dir.run("run c.json --unsafe-ring --reference --json");
  CAPTURE(ran.err);
  CHECK(ran.status == 1);
  CHECK(ran.err.empty());
  const nlohmann::json out = ran.json();
  CHECK(out["y"].is_null());
  CHECK(out["stages"]["l2"].is_null());
  CHECK(out["error"].is_null());
  CHECK(out["traffic"].is_null());
  REQUIRE(!out["findings"].empty());
  const nlohmann::json finding = out["findings"][0];
  CHECK(keys(finding) ==
        std::set<std::string>{"class", "step", "rank", "sm", "role", "text", "other", "repeat"});
  CHECK(finding["class"] == "deadlock");
  const Ran again = dir.paste(finding["repeat"].get<std::string>());
  CHECK(again.status == 1);
  CHECK(contains(again.out, "finding 1  deadlock at " + finding["step"].get<std::string>()));
  CHECK(contains(again.out, out["schedule"].get<std::string>()));
  CHECK(contains(again.out, "repeat     " + finding["repeat"].get<std::string>()));

  const Ran diff = dir.run("diff c.json --unsafe-ring --json");
  CHECK(diff.status == 1);
  CHECK(diff.json()["equal"] == false);
  CHECK(diff.json()["left_findings"][0]["class"] == "deadlock");
}

TEST_CASE("command line: diff finds nothing between sim and naive, and names a changed bit") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  const Ran equal = dir.run("diff c.json --json");
  CAPTURE(equal.err);
  CHECK(equal.status == 0);
  CHECK(equal.json()["equal"] == true);
  CHECK(equal.json()["first"].is_null());
  CHECK(equal.json()["launches"].size() == 2);

  REQUIRE(dir.run("run c.json --backend naive --dump d.safetensors").status == 0);
  CHECK(dir.run("diff c.json --left d.safetensors --right naive").status == 0);

  const Case c = load_case(dir.path("c.json"));
  WeightCache cache;
  const Problem problem = make_problem(c, 1, cache);
  LayerResult result = run_naive(problem);
  const size_t row = 9;  // rank 1, token 1
  result.y[row * c.shape.hidden + 17] ^= 4;
  write_dump(dir.path("changed.safetensors"), problem, result);
  const Ran ran = dir.run("diff c.json --left naive --right changed.safetensors --json");
  CHECK(ran.status == 1);
  const nlohmann::json first = ran.json()["first"];
  CHECK(first["stage"] == "y");
  CHECK(first["launch"] == 1);
  CHECK(first["rank"] == 1);
  CHECK(first["token"] == 1);
  CHECK(first["column"] == 17);
  CHECK(first["bit"] == 2);
  const Ran screen = dir.run("diff c.json --left naive --right changed.safetensors");
  CHECK(screen.status == 1);
  CHECK(contains(screen.out, "rank 1, token 1, column 17"));
  const std::string repeat = "repeat     ";
  const size_t at = screen.out.find(repeat);
  REQUIRE(at != std::string::npos);
  const std::string command =
      screen.out.substr(at + repeat.size(), screen.out.find('\n', at) - at - repeat.size());
  CHECK(dir.paste(command).out == screen.out);
}

TEST_CASE("command line: layout lists every byte of a rank's buffer once, with writer and reader") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  const Ran ran = dir.run("layout c.json --json");
  REQUIRE(ran.status == 0);
  const nlohmann::json out = ran.json();
  uint64_t end = 0;
  for (const nlohmann::json& region : out["regions"]) {
    CHECK(region["offset"].get<uint64_t>() >= end);
    end = region["offset"].get<uint64_t>() + region["bytes"].get<uint64_t>();
    CHECK(!region["writers"].get<std::string>().empty());
    CHECK(!region["readers"].get<std::string>().empty());
  }
  CHECK(end <= out["bytes_per_rank"].get<uint64_t>());
  const Ran screen = dir.run("layout c.json");
  CHECK(screen.status == 0);
  CHECK(contains(screen.out, "SlotTable"));
  CHECK(dir.run("layout c.json --taps --json").json()["bytes_per_rank"].get<uint64_t>() >
        out["bytes_per_rank"].get<uint64_t>());
}

TEST_CASE("command line: ring tells the size below which run refuses the case") {
  const ProgramDirectory dir;
  REQUIRE(dir.run("case small --set kernel.ring_blocks=1000 --out c.json").status == 0);
  const nlohmann::json out = dir.run("ring c.json --json").json();
  CHECK(keys(out) == std::set<std::string>{"ring_blocks", "why", "counterexample"});
  const uint32_t ring = out["ring_blocks"];
  REQUIRE(ring > 1);
  const std::string set = "case small --set kernel.ring_blocks=";
  CHECK(dir.run(set + std::to_string(ring)).status == 0);
  CHECK(dir.run(set + std::to_string(ring - 1)).status == 2);
  CHECK(contains(dir.run("ring c.json").out, out["why"].get<std::string>()));
  CHECK(out["counterexample"]["kernel"]["ring_blocks"] == ring - 1);
  REQUIRE(dir.run("ring c.json --out short.json").status == 0);
  CHECK(dir.run("run short.json").status == 2);
  const Ran shorter = dir.run("run short.json --unsafe-ring --json");
  CHECK(shorter.status == 1);
  CHECK(shorter.json()["findings"][0]["class"] == "deadlock");
}

TEST_CASE("command line: what explore finds, its repeat command finds again") {
  const ProgramDirectory dir;
  dir.write("c.json", R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":128,"intermediate":128,
      "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1]]]},
      "kernel":{"sms_per_rank":1,"ring_blocks":1}})");
  const Ran ran = dir.run("explore c.json --policy slow --unsafe-ring --json");
  CHECK(ran.status == 1);
  const nlohmann::json out = ran.json();
  CHECK(out["swept"] == 5);
  const std::string repeat = out["findings"][0]["repeat"];
  REQUIRE(repeat.substr(0, 8) == "moetwin ");
  CHECK(dir.run(repeat.substr(8)).status == 1);
  CHECK(dir.run("explore c.json --policy none").status == 2);
}

TEST_CASE("command line: faults lists and tries one plant, and run takes it from a case") {
  const ProgramDirectory dir;
  CHECK(contains(dir.run("faults --list").out, "F07b"));
  const Ran ran = dir.run("faults --only F07b --json");
  CHECK(ran.status == 0);
  const nlohmann::json out = ran.json();
  CHECK(keys(out) == std::set<std::string>{"killed", "total", "accepted", "survivors", "plants"});
  CHECK(out["killed"] == 1);
  CHECK(out["total"] == 1);
  nlohmann::json planted = out["plants"][0]["case"];
  planted["plant"] = "F07b";
  dir.write("p.json", planted.dump());
  CHECK(dir.run("run p.json").status == 1);
  CHECK(dir.run("run p.json --backend naive").status == 2);
  CHECK(dir.run("faults --only F99").status == 2);
}

TEST_CASE("command line: without a card the gpu backend is status 3 and one line") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  // Where there is a card, nothing of this can be seen.
  if (dir.run("run c.json --backend gpu").status != 3) {
#ifndef MOETWIN_HAVE_CUDA
    FAIL("a program without CUDA did not say so");
#endif
    return;
  }
  for (const char* arguments :
       {"run c.json --backend gpu", "run c.json --backend gpu --json", "diff c.json --right gpu",
        "golden record g.json c.json --backend gpu"}) {
    CAPTURE(arguments);
    const Ran ran = dir.run(arguments);
    CHECK(ran.status == 3);
    CHECK(ran.one_line_of_error());
    CHECK(contains(ran.err, "no CUDA device: "));
    CHECK(ran.out.empty());
  }
}

TEST_CASE("command line: output that cannot be written is no success") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("case tiny > /dev/full");
  CHECK(ran.status == 2);
  CHECK(ran.one_line_of_error());
}
