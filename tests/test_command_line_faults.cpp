// A planted fault on the command line: what diff says of it, and of whom it is.
#include <doctest/doctest.h>

#include <string>

#include "fuzz/plants.h"
#include "tests/command_line_program.h"

using namespace moetwin;

namespace {

std::string planted_case(const char* id) {
  nlohmann::json c = nlohmann::json::parse(find_plant(id)->text);
  c["plant"] = id;
  return c.dump();
}

}  // namespace

TEST_CASE("command line: diff names the stage that a planted fault of the arithmetic changes") {
  const ProgramDirectory dir;
  for (const char* id : {"F50", "F51", "F55"}) {
    CAPTURE(std::string(id));
    dir.write("planted.json", planted_case(id));
    const Ran ran = dir.run("diff planted.json --json");
    CAPTURE(ran.err);
    REQUIRE(ran.status == 1);
    CHECK(ran.json()["first"]["stage"] == stage_name(find_plant(id)->stage));
  }
}

TEST_CASE("command line: a planted fault is the simulator's alone") {
  const ProgramDirectory dir;
  dir.write("planted.json", planted_case("F50"));
  CHECK(dir.run("diff planted.json --left naive --right sim").status == 1);
  CHECK(dir.run("diff planted.json --left sim --right sim").status == 0);
  const Ran ran = dir.run("diff planted.json --left naive --right naive");
  CHECK(ran.status == 2);
  CHECK(ran.one_line_of_error());
  CHECK(dir.run("run planted.json --backend naive").status == 2);
}
