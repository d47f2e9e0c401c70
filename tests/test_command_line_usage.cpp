// What the command line refuses, and how: exit status 2 and one line that says what is wrong.
#include <doctest/doctest.h>

#include <string>
#include <vector>

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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("command line: bad usage is status 2, one line, and nothing on standard output") {
  const ProgramDirectory dir;
  dir.write("c.json", kSmallCase);
  for (const std::string& arguments : std::vector<std::string>{
           "",
           "frobnicate",
           "--frobnicate",
           "run",
           "run c.json extra.json",
           "run c.json --frobnicate",
           "run c.json --threads",
           "run c.json --threads 0",
           "run c.json --threads -1",
           "run c.json --threads 1.5",
           "run c.json --threads 99999999999999999999",
           "run c.json --threads 4x",
           "run c.json --max-memory 0",
           "run c.json --max-memory nan",
           "run c.json --max-memory -3",
           "run c.json --max-memory 1GiB",
           "run c.json --backend cpu",
           "run c.json --schedule sideways",
           "run c.json --schedule random:",
           "run c.json --schedule random:-1",
           "run c.json --schedule slow:nobody@0",
           "run c.json --schedule slow:math@2",
           "run c.json --schedule replay:@absent.txt",
           "run c.json --backend naive --schedule sideways",
           "run c.json --backend naive --check",
           "run c.json --backend naive --no-math",
           "run c.json --no-math --reference",
           "run c.json --no-math --dump d.safetensors",
           "run c.json --dump absent/d.safetensors",
           "run c.json --json=maybe",
           "run absent.json",
           "run .",
           "diff",
           "diff c.json --left cpu",
           "diff c.json --right absent.safetensors",
           "case",
           "case huge",
           "case tiny --set",
           "case tiny --set shape.topk",
           "case tiny --set =3",
           "case tiny --set shape.topk=0",
           "case tiny --set shape.topk=1.5",
           "case tiny --set shape.colour=3",
           "case tiny --set kernel.ring_blocks=1",
           "case tiny --set schedule=sideways",
           "case tiny --set routing={",
           "case tiny --out absent/c.json",
           "case tiny --out .",
           "golden",
           "golden record",
           "golden record g.json",
           "golden record g.json --cases 0",
           "golden record g.json --cases 2 --seed x",
           "golden record g.json --cases 2 --backend cpu",
           "golden record g.json c.json --cases 2",
           "golden record g.json c.json --seed 2",
           "golden record g.json absent.json",
           "golden record absent/g.json c.json",
           "golden check",
           "golden check absent.json",
           "golden check c.json",
           "golden check c.json --backend cpu",
           "golden vectors absent.bin",
           "golden vectors c.json",
           "layout",
           "layout absent.json",
           "ring",
           "ring absent.json",
           "bench everything",
       }) {
    CAPTURE(arguments);
    const Ran ran = dir.run(arguments);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.out.empty());
  }
}

TEST_CASE("command line: a field that is wrong is named with its value and limit") {
  const ProgramDirectory dir;
  struct Bad {
    const char* text;
    const char* field;
    const char* value;
  };
  const std::string shape =
      R"("shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,)"
      R"("max_tokens_per_rank":8})";
  for (const Bad& bad : {
           Bad{R"("tokens":[9,0])", "tokens[0]", "9"},
           Bad{R"("tokens":[1])", "tokens", "1"},
           Bad{R"("kernel":{"block_m":96})", "kernel.block_m", "96"},
           Bad{R"("kernel":{"stages":9})", "kernel.stages", "9"},
           Bad{R"("kernel":{"stages":4.0})", "kernel.stages", "4.0"},
           Bad{R"("kernel":{"stages":8,"block_m":128})", "kernel.stages", "8"},
           Bad{R"("kernel":{"ring_blocks":1,"sms_per_rank":1})", "kernel.ring_blocks", "1"},
           Bad{R"("kernel":{"clamp":0})", "kernel.clamp", "0"},
           Bad{R"("schedule":"sideways")", "schedule", "sideways"},
           Bad{R"("plant":"no_such_fault")", "plant", "no_such_fault"},
           Bad{R"("launches":0)", "launches", "0"},
           Bad{R"("launches":1001)", "launches", "1001"},
           Bad{R"("routing":{"kind":"trace","path":"none.csv"})", "none.csv", ""},
           Bad{R"("data":{"kind":"file","path":"none.safetensors"})", "none.safetensors", ""},
           Bad{R"("colour":"red")", "colour", ""},
       }) {
    CAPTURE(bad.text);
    dir.write("bad.json", "{" + shape + "," + bad.text + "}");
    for (const char* verb : {"run bad.json", "diff bad.json"}) {
      const Ran ran = dir.run(verb);
      CAPTURE(ran.err);
      CHECK(ran.status == 2);
      CHECK(ran.one_line_of_error());
      CHECK(contains(ran.err, bad.field));
      CHECK(contains(ran.err, bad.value));
      CHECK(ran.out.empty());
    }
  }
  dir.write("cut.json", "{" + shape);
  CHECK(dir.run("run cut.json").one_line_of_error());
  dir.write("huge.json", R"({"shape":{"ranks":128,"experts":4096,"topk":32,"hidden":16384,)"
                         R"("intermediate":32768,"max_tokens_per_rank":2048}})");
  for (const char* verb : {"run huge.json --max-memory 4", "diff huge.json --max-memory 4",
                           "run huge.json --backend naive --max-memory 4",
                           "golden record g.json huge.json --max-memory 4"}) {
    CAPTURE(verb);
    const Ran ran = dir.run(verb);
    CAPTURE(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(contains(ran.err, "--max-memory allows 4.000 GiB"));
  }
}

TEST_CASE("command line: an option without its value says what it wants, as help does") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("run case.json --max-memory");
  CHECK(ran.status == 2);
  CHECK(ran.err == "moetwin: --max-memory: GIB is missing (moetwin run --help)\n");
  const std::string help = dir.run("run --help").out;
  CHECK(help.find("--max-memory GIB") != std::string::npos);
  CHECK(help.find("--trace FILE") != std::string::npos);
  CHECK(help.find("TEXT") == std::string::npos);
  for (const char* verb : {"record", "check", "vectors"}) {
    const std::string golden = dir.run(std::string("golden ") + verb + " --help").out;
    for (const char* other : {"record", "check", "vectors"})
      CHECK((golden.find(std::string("moetwin golden ") + other) != std::string::npos) ==
            (std::string(other) == verb));
  }
}

TEST_CASE("command line: a ring that needs too much memory is named by its own field") {
  const ProgramDirectory dir;
  dir.write("ring.json", R"({"shape":{"ranks":64,"experts":64,"topk":1,"hidden":128,
      "intermediate":128,"max_tokens_per_rank":1},"kernel":{"ring_blocks":1048576}})");
  const Ran ran = dir.run("run ring.json --max-memory 1");
  CHECK(ran.status == 2);
  CHECK(ran.err.rfind("moetwin: kernel.ring_blocks: 1048576 makes the case need", 0) == 0);
}
