// The documents name functions, files and steps that exist.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "common/symmetric_layout.h"
#include "tests/paths.h"

namespace fs = std::filesystem;

namespace moetwin {
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Names in the document's table rows: (functions, file) of each row that ends in a file.
struct Row {
  std::vector<std::string> functions;
  std::string file;
};

std::vector<Row> rows_of(const std::string& text) {
  std::vector<Row> rows;
  const std::regex row(R"(\| ((?:`\w+`(?:, )?)+) \| `([\w/]+\.h)` \|)");
  const std::regex name(R"(`(\w+)`)");
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    Row found;
    const std::string names = (*it)[1];
    for (std::sregex_iterator n(names.begin(), names.end(), name); n != end; ++n)
      found.functions.push_back((*n)[1]);
    found.file = (*it)[2];
    rows.push_back(found);
  }
  return rows;
}

}  // namespace

TEST_CASE("docs: every step of protocol.md names a function that its file defines") {
  const fs::path root = source_root();
  const std::vector<Row> rows = rows_of(read_file(root / "docs/protocol.md"));
  REQUIRE(rows.size() >= 17);
  for (const Row& row : rows) {
    REQUIRE_MESSAGE(fs::exists(root / row.file), row.file);
    const std::string source = read_file(root / row.file);
    for (const std::string& function : row.functions)
      CHECK_MESSAGE(
          std::regex_search(source, std::regex("MOETWIN_ROLE [\\w:<> ]+ " + function + "\\(")),
          row.file, " does not define ", function);
  }
}

TEST_CASE("docs: the ring counters of protocol.md are regions of the layout") {
  const std::string text = read_file(fs::path(source_root()) / "docs/protocol.md");
  uint32_t named = 0;
  for (const std::string counter : {"XFull", "XEmpty", "Linear1Full", "Linear1Empty"}) {
    CHECK(text.find("| `" + counter + "` |") != std::string::npos);
    for (uint32_t r = 0; r < moetwin::kNumRegions; ++r)
      named += counter == moetwin::region_info(static_cast<moetwin::Region>(r)).name;
  }
  CHECK(named == 4);
}

}  // namespace moetwin
