// What a card recorded, the CPU must give again: digests of every stage of every case.
#include <doctest/doctest.h>

#include <string>

#include "tests/command_line_program.h"
#include "tests/paths.h"

using namespace moetwin;

TEST_CASE("golden recorded: the simulator reproduces every digest that an H200 recorded") {
  const ProgramDirectory dir;
  const Ran ran = dir.run("golden check " + test_data("h200_generated.json") + " --json");
  CHECK_MESSAGE(ran.status == 0, "repeat: moetwin golden check tests/data/h200_generated.json\n",
                ran.out, ran.err);
  REQUIRE(ran.json()["cases"].is_number());
  CHECK(ran.json()["cases"] == 520);
  CHECK(ran.json()["differences"] == 0);
}

TEST_CASE("golden recorded: one changed digest is a difference") {
  const ProgramDirectory dir;
  std::string text;
  {
    std::ifstream in(test_data("h200_generated.json"), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    text = all.str();
  }
  const size_t place = text.find("\"y\": \"");
  REQUIRE(place != std::string::npos);
  char& digit = text[place + 6];
  digit = digit == '0' ? '1' : '0';
  dir.write("changed.json", text);
  const Ran ran = dir.run("golden check changed.json --json");
  CHECK(ran.status == 1);
  CHECK(ran.json()["differences"] == 1);
}
