#include <doctest/doctest.h>

#include "tests/command_line_program.h"
#include "tests/trace_reader.h"

namespace moetwin {

TEST_CASE("command line: --trace writes a timeline and changes nothing else") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  const Ran plain = directory.run("run c.json --json");
  const Ran traced = directory.run("run c.json --json --trace t.pftrace");
  REQUIRE(plain.status == 0);
  REQUIRE(traced.status == 0);
  CHECK(keys(plain.json()) == keys(traced.json()));
  CHECK(plain.json()["state"] == traced.json()["state"]);
  CHECK(read_trace(directory.read("t.pftrace")).events.size() > 1000);
}

TEST_CASE("command line: --trace is refused where there is no timeline or no place for it") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  for (const char* arguments :
       {"run c.json --backend naive --trace t", "run c.json --trace no_such_directory/t"}) {
    CAPTURE(arguments);
    const Ran ran = directory.run(arguments);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.out.empty());
    CHECK(ran.err.find("--trace") != std::string::npos);
  }
}

TEST_CASE("command line: a tile height without a kernel variant names those there are") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  const Ran ran = directory.run("case tiny --set kernel.block_m=96 --out d.json");
  CHECK(ran.status == 2);
  CHECK(ran.err.find("kernel.block_m: 96") != std::string::npos);
  CHECK(ran.err.find("128") != std::string::npos);
}

}  // namespace moetwin
