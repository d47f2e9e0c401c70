// The corpus of fuzz/corpus: what once failed stays mended, what is expected to fail still does,
// and few cases reach what long campaigns reached.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/differential.h"
#include "fuzz/kept_weights.h"
#include "fuzz/signals.h"
#include "model/case.h"
#include "tests/paths.h"

using namespace moetwin;

namespace {

std::string corpus(const std::string& name) { return source_root() + "/fuzz/corpus/" + name; }

std::vector<std::string> case_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(corpus(folder)))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

nlohmann::json ledger() {
  std::ifstream file(corpus("ledger.json"));
  return nlohmann::json::parse(file);
}

Judged judge_file(const std::string& path, bool check) {
  JudgeOptions judge;
  judge.check = check;
  return judge_case(load_case(path), judge);
}

}  // namespace

TEST_CASE("corpus: no case fails that once failed, with and without the checker") {
  const std::vector<std::string> files = case_files("regression");
  CHECK(!files.empty());
  for (const std::string& file : files)
    for (const bool check : {false, true}) {
      const Judged judged = judge_file(file, check);
      CHECK_MESSAGE(judged.cause.none(), cause_text(judged.cause), ": ", judged.finding.text,
                    "\nrepeat: moetwin diff ", file, check ? " --check" : "");
    }
}

TEST_CASE("corpus: nothing crashes today") {
  for (const std::string& file : case_files("crashing")) FAIL_CHECK(file);
}

TEST_CASE("corpus: the cases kept for coverage reach what the ledger says, without a finding") {
  Signals reached;
  for (const std::string& file : case_files("coverage")) {
    const Judged judged = judge_file(file, false);
    CHECK_MESSAGE(judged.cause.none(), file, ": ", judged.finding.text);
    reached |= judged.signals;
  }
  const nlohmann::json wanted = ledger().at("coverage");
  CHECK(count_pairs(reached) >= wanted.at("pairs").get<uint32_t>());
  CHECK(reached.count() >= wanted.at("signals").get<size_t>());
}

TEST_CASE("corpus: every expected finding is still there, and is the one expected") {
  const nlohmann::json entries = ledger().at("expected");
  CHECK(entries.size() >= 3);
  for (const nlohmann::json& entry : entries) {
    const std::string name = entry.at("case").get<std::string>();
    CAPTURE(name);
    const Judged judged = judge_file(corpus(name), entry.at("check").get<bool>());
    CHECK_MESSAGE(!judged.cause.none(),
                  "the finding is gone: take the entry out of the ledger and, where a mistake was "
                  "mended, put the case into regression/");
    CHECK(judged.cause.kind == entry.at("class").get<std::string>());
    CHECK(judged.cause.site == entry.at("site").get<std::string>());
  }
}
