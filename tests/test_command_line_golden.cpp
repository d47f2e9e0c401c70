// Golden files through the command line: recorded, checked, changed and caught.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "fuzz/generator.h"
#include "model/golden_file.h"
#include "tests/command_line_program.h"

using namespace moetwin;

TEST_CASE(
    "golden verb: what one backend recorded the other reproduces, and a changed digest is "
    "caught") {
  const ProgramDirectory dir;
  const Ran recorded = dir.run("golden record g.json --backend naive --cases 12 --seed 4");
  CAPTURE(recorded.err);
  REQUIRE(recorded.status == 0);
  GoldenFile golden = read_golden(dir.path("g.json"));
  REQUIRE(golden.cases.size() == 12);
  CHECK(!golden.machine.cpu.empty());
  CHECK(parse_case(golden.cases[5].case_text, "") == random_case(4, 5));

  for (const char* backend : {"naive", "sim"}) {
    CAPTURE(backend);
    const Ran ran = dir.run(std::string("golden check g.json --json --backend ") + backend);
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    CHECK(ran.json()["cases"] == 12);
    CHECK(ran.json()["differences"] == 0);
  }

  std::string& digest = golden.cases[7].digests.l2;
  digest[3] = digest[3] == '0' ? '1' : '0';
  write_golden(dir.path("changed.json"), golden);
  const Ran caught = dir.run("golden check changed.json --backend naive --json");
  CHECK(caught.status == 1);
  CHECK(caught.json()["differences"] == 1);
  CHECK(caught.json()["details"][0]["case"] == 7);
  CHECK(caught.json()["details"][0]["stage"] == "l2");
  const Ran repeated = dir.paste(caught.json()["details"][0]["repeat"].get<std::string>());
  CHECK(repeated.status == 1);
  CHECK(repeated.out.find("case 7: l2") != std::string::npos);
}

TEST_CASE("golden verb: recorded case files keep their paths, and files of cases are taken too") {
  const ProgramDirectory dir;
  REQUIRE(dir.run("case tiny --out a.json").status == 0);
  dir.write("routes.csv", "e0,e1\n0,1\n1,2\n2,3\n");
  REQUIRE(dir.run("case tiny --set tokens='[2,1]' "
                  "routing='{\"kind\":\"trace\",\"path\":\"routes.csv\"}' --out b.json")
              .status == 0);
  const Ran recorded = dir.run("golden record g.json a.json b.json --backend sim");
  CAPTURE(recorded.err);
  REQUIRE(recorded.status == 0);
  CHECK(read_golden(dir.path("g.json")).cases[1].case_text.find("\"routes.csv\"") !=
        std::string::npos);
  const Ran ran = dir.run("golden check g.json --backend naive --json");
  CAPTURE(ran.err);
  CHECK(ran.status == 0);
  CHECK(ran.json()["cases"] == 2);
}

TEST_CASE("golden verb: recorded tensor-core vectors hold, and one changed bit of D is named") {
  const ProgramDirectory dir;
  // One block of the file format: {name[24], steps, 64, 8, 0}, A, B, C, D. Zero operands keep C.
  std::string bytes(24, '\0');
  bytes.replace(0, 5, "zeros");
  const auto word = [](uint32_t value) {
    std::string text;
    for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(value >> (8 * byte) & 0xFF);
    return text;
  };
  bytes += word(1) + word(64) + word(8) + word(0);
  bytes += std::string((64 + 8) * 32, '\0');
  for (int matrix = 0; matrix < 2; ++matrix)
    for (int i = 0; i < 64 * 8; ++i) bytes += word(0x40000000);
  dir.write("vectors.bin", bytes);
  const Ran fine = dir.run("golden vectors vectors.bin --json");
  CAPTURE(fine.err);
  CHECK(fine.status == 0);
  CHECK(fine.json()["values"] == 512);
  CHECK(fine.json()["differences"] == 0);

  bytes[bytes.size() - 4] ^= 1;
  dir.write("vectors.bin", bytes);
  const Ran caught = dir.run("golden vectors vectors.bin --json");
  CHECK(caught.status == 1);
  CHECK(caught.json()["differences"] == 1);
  CHECK(caught.json()["first"]["row"] == 63);
  CHECK(caught.json()["first"]["column"] == 7);
  CHECK(dir.run("golden vectors vectors.bin").status == 1);

  dir.write("vectors.bin", bytes.substr(0, bytes.size() - 1));
  const Ran cut = dir.run("golden vectors vectors.bin");
  CHECK(cut.status == 2);
  CHECK(cut.one_line_of_error());
}
