#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "common/check.h"
#include "model/golden_file.h"
#include "tests/sample_result.h"

namespace moetwin {
namespace {

GoldenFile sample_golden() {
  GoldenFile file;
  file.machine.card = "H200 \"test\"";
  file.machine.driver = "1.2";
  file.machine.date = "2026-01-02";
  file.machine.version = "0.1";
  GoldenCase recorded;
  recorded.case_text = R"({"routing":{"alpha":1.2},"shape":{"experts":4,"ranks":2}})";
  recorded.digests = digest_stages(test::sample_result());
  file.cases.push_back(recorded);
  recorded.digests.l1.clear();
  file.cases.push_back(recorded);
  return file;
}

std::string error_of(const std::string& text) {
  try {
    parse_golden(text, "g.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("golden_file: what is written is read back, in memory and through a file") {
  const GoldenFile file = sample_golden();
  CHECK(parse_golden(golden_text(file), "g.json") == file);
  const std::string path =
      (std::filesystem::temp_directory_path() / "moetwin_test_golden_file.json").string();
  write_golden(path, file);
  CHECK(read_golden(path) == file);
  std::remove(path.c_str());
  CHECK_THROWS_AS(read_golden(path), InputError);
  CHECK_THROWS_AS(write_golden("/nonexistent/g.json", file), InputError);
}

TEST_CASE("golden_file: an empty list of cases and a processor as machine are accepted") {
  GoldenFile file;
  file.machine.cpu = "some cpu";
  file.machine.date = "2026-01-02";
  file.machine.version = "0.1";
  CHECK(parse_golden(golden_text(file), "g.json") == file);
}

TEST_CASE("golden_file: every departure from the format is refused by one line naming the field") {
  const std::string good = golden_text(sample_golden());
  const std::string digest = digest_stages(test::sample_result()).y;
  struct Fault {
    std::string text;
    std::string names;
  };
  const Fault faults[] = {
      {good.substr(0, good.size() / 2), "parse error"},
      {"[]", "golden file"},
      {replaced(good, "\"format\": 1", "\"format\": 2"), "format"},
      {replaced(good, "\"format\": 1", "\"format\": 1.0"), "format"},
      {replaced(good, "\"format\": 1,", ""), "format"},
      {replaced(good, "\"format\": 1", "\"format\": 1, \"format\": 1"), "format"},
      {replaced(good, "\"format\": 1", "\"format\": 1, \"other\": 1"), "other"},
      {replaced(good, "\"driver\": \"1.2\", ", ""), "machine"},
      {replaced(good, "\"driver\"", "\"cpu\": \"x\", \"driver\""), "machine"},
      {replaced(good, "\"date\": \"2026-01-02\", ", ""), "machine"},
      {replaced(good, "\"version\"", "\"version_\""), "machine.version_"},
      {replaced(good, "\"cases\": [", "\"cases\": [3,"), "cases[0]"},
      {replaced(good, "\"case\": {", "\"case\": 1, \"x\": {"), "cases[0].case"},
      {replaced(good, digest, digest.substr(1)), "cases[0].digests.y"},
      {replaced(good, digest, "G" + digest.substr(1)), "cases[0].digests.y"},
      {replaced(good, "\"" + digest + "\"", "7"), "cases[0].digests.y"},
      {replaced(good, "\"slots\"", "\"slot\""), "cases[0].digests"},
  };
  REQUIRE(parse_golden(good, "g.json").cases.size() == 2);
  for (const Fault& fault : faults) {
    CAPTURE(fault.text);
    const std::string error = error_of(fault.text);
    CHECK(error.find("g.json: ") == 0);
    CHECK(error.find(fault.names) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("golden_file: a file that could not be read back is not written") {
  GoldenFile file = sample_golden();
  file.cases[1].case_text = "[1]";
  CHECK_THROWS_AS(golden_text(file), InputError);
  file = sample_golden();
  file.machine.driver.clear();
  CHECK_THROWS_AS(golden_text(file), InputError);
  file = sample_golden();
  file.cases[0].digests.y = "short";
  CHECK_THROWS_AS(golden_text(file), InternalError);
}

TEST_CASE("golden_file: comparison lists each stage that differs and skips what a side lacks") {
  const GoldenFile file = sample_golden();
  StageDigests got = file.cases[0].digests;
  CHECK(compare_golden(file, 0, got).empty());
  got.l1[0] = got.l1[0] == '0' ? '1' : '0';
  got.y[31] = got.y[31] == '0' ? '1' : '0';
  got.l2.clear();
  const std::vector<GoldenDifference> differences = compare_golden(file, 0, got);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].stage == Stage::L1);
  CHECK(differences[0].recorded == file.cases[0].digests.l1);
  CHECK(differences[0].got == got.l1);
  CHECK(differences[1].stage == Stage::Y);
  const std::vector<GoldenDifference> second = compare_golden(file, 1, got);
  REQUIRE(second.size() == 1);  // the second case was recorded without l1
  CHECK(second[0].stage == Stage::Y);
  CHECK(second[0].case_index == 1);
}

}  // namespace
}  // namespace moetwin
