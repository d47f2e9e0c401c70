// The house style that a program can check, and the direction in which includes may point. The
// checks are functions of a text, so that bad texts show that they can fail.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxColumns = 100;
constexpr size_t kMaxLines = 600;
constexpr size_t kMaxHeadLines = 10;

/// Folders that a folder may include, besides itself.
const std::map<std::string, std::vector<std::string>> kMayInclude = {
    {"common", {}},
    {"model", {"common"}},
    {"cpu_sim", {"common", "model"}},
    {"cuda", {"common", "model", "fuzz"}},
    {"fuzz", {"common", "model", "cpu_sim"}},
    {"app", {"common", "model", "cpu_sim", "cuda", "fuzz"}},
    {"tests", {"common", "model", "cpu_sim", "cuda", "fuzz", "app"}},
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Columns as a reader counts them: UTF-8 continuation bytes take none.
size_t columns(const std::string& line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::vector<std::string> include_faults(const std::string& folder, const std::string& text) {
  std::vector<std::string> faults;
  const std::regex include(R"re(#include "(\w+)/)re");
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const std::string target = (*it)[1];
    const auto& allowed = kMayInclude.at(folder);
    if (target == folder || !kMayInclude.contains(target)) continue;
    if (std::find(allowed.begin(), allowed.end(), target) == allowed.end())
      faults.push_back(folder + " includes " + target);
  }
  return faults;
}

std::vector<std::string> line_faults(const std::string& text) {
  std::vector<std::string> faults;
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() > kMaxLines) faults.push_back("more than 600 lines");
  // Assembled, so that this file does not name them itself.
  const std::regex banned(std::string("\\b(TO") + "DO|FIX" + "ME|XX" + "X)\\b");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string place = "line " + std::to_string(i + 1) + ": ";
    if (columns(lines[i]) > kMaxColumns) faults.push_back(place + "over 100 columns");
    if (lines[i].find('\t') != std::string::npos) faults.push_back(place + "a tab");
    if (!lines[i].empty() && lines[i].back() == ' ') faults.push_back(place + "space at the end");
    if (std::regex_search(lines[i], banned)) faults.push_back(place + "a bare note to do");
  }
  return faults;
}

/// A file opens with a comment that says what it owns, at most ten lines of it. Tests may start
/// with their includes: their cases say what they are about.
std::vector<std::string> head_faults(const std::string& text, bool header, bool test) {
  std::vector<std::string> faults;
  const std::vector<std::string> lines = lines_of(text);
  size_t head = 0;
  while (head < lines.size() && lines[head].rfind("//", 0) == 0) ++head;
  if (head == 0 && !test) faults.push_back("no opening comment");
  size_t prose = 0;
  // Tables inside the opening comment are counted apart: indented by three spaces or more.
  for (size_t i = 0; i < head; ++i)
    if (lines[i].rfind("//  ", 0) != 0 && lines[i] != "//") ++prose;
  if (prose > kMaxHeadLines) faults.push_back("an opening comment of more than ten lines");
  if (header && text.find("#pragma once") == std::string::npos) faults.push_back("no #pragma once");
  return faults;
}

std::vector<std::string> cuda_faults(const std::string& text) {
  std::vector<std::string> faults;
  if (std::regex_search(text, std::regex(R"re(#include <(fmt|Eigen|boost|nlohmann|hwy)/)re")))
    faults.push_back("a .cu file includes a library that nvcc does not take");
  return faults;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

template <class F>
void for_each_source(F&& f) {
  const fs::path root = MOETWIN_SOURCE_DIR;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp" || extension == ".cu")
        f(folder, entry.path(), read_file(entry.path()));
    }
  }
}

}  // namespace

TEST_CASE("style: data flows one way through the folders") {
  size_t files = 0;
  for_each_source([&](const std::string& folder, const fs::path& path, const std::string& text) {
    ++files;
    for (const std::string& fault : include_faults(folder, text)) FAIL_CHECK(path, ": ", fault);
  });
  CHECK(files > 80);
}

TEST_CASE("style: lines, heads and files keep to the house") {
  for_each_source([&](const std::string& folder, const fs::path& path, const std::string& text) {
    for (const std::string& fault : line_faults(text)) FAIL_CHECK(path, ": ", fault);
    for (const std::string& fault : head_faults(text, path.extension() == ".h", folder == "tests"))
      FAIL_CHECK(path, ": ", fault);
    if (path.extension() == ".cu")
      for (const std::string& fault : cuda_faults(text)) FAIL_CHECK(path, ": ", fault);
  });
}

TEST_CASE("style: the top level holds what belongs there and nothing else") {
  const std::vector<std::string> allowed{"CMakeLists.txt",
                                         "CMakePresets.json",
                                         "LICENSE",
                                         "README.md",
                                         "app",
                                         "check",
                                         "common",
                                         "cpu_sim",
                                         "cuda",
                                         "docs",
                                         "fuzz",
                                         "model",
                                         "quickstart",
                                         "tests",
                                         ".ci",
                                         ".clang-format",
                                         ".gitignore",
                                         ".git",
                                         "build"};
  for (const auto& entry : fs::directory_iterator(fs::path(MOETWIN_SOURCE_DIR))) {
    const std::string name = entry.path().filename();
    if (name.rfind("build-", 0) == 0 || name.rfind(".device_", 0) == 0) continue;
    CHECK_MESSAGE(std::find(allowed.begin(), allowed.end(), name) != allowed.end(), name);
  }
}

TEST_CASE("style: the checks see bad texts") {
  CHECK(!include_faults("common", "#include \"model/case.h\"\n").empty());
  CHECK(!include_faults("cpu_sim", "#include \"cuda/ptx.h\"\n").empty());
  CHECK(!include_faults("cuda", "#include \"cpu_sim/fiber.h\"\n").empty());
  CHECK(include_faults("app", "#include \"fuzz/generator.h\"\n").empty());
  CHECK(!line_faults(std::string(101, 'x') + "\n").empty());
  CHECK(line_faults(std::string(100, 'x') + "\n").empty());
  CHECK(!line_faults("a\tb\n").empty());
  CHECK(!line_faults("a \n").empty());
  CHECK(!line_faults(std::string("// TO") + "DO later\n").empty());
  CHECK(!line_faults([] {
           std::string text;
           for (int i = 0; i < 601; ++i) text += "x\n";
           return text;
         }())
             .empty());
  CHECK(!head_faults("#pragma once\n", true, false).empty());
  CHECK(!head_faults("// What it owns.\n", true, false).empty());
  CHECK(head_faults("// What it owns.\n#pragma once\n", true, false).empty());
  std::string long_head;
  for (int i = 0; i < 11; ++i) long_head += "// more\n";
  CHECK(!head_faults(long_head + "#pragma once\n", true, false).empty());
  CHECK(!cuda_faults("#include <fmt/format.h>\n").empty());
}
