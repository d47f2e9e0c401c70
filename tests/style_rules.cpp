#include "tests/style_rules.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

namespace moetwin::style {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kLines = 600;
constexpr size_t kHeadLines = 10;

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_header(const std::string& path) { return ends_with(path, ".h"); }
bool is_source(const std::string& path) {
  return ends_with(path, ".cpp") || ends_with(path, ".cu");
}
bool is_code(const std::string& path) { return is_header(path) || is_source(path); }

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string at(const std::string& path, size_t line_idx, const std::string& what) {
  return path + ":" + std::to_string(line_idx + 1) + ": " + what;
}

struct Include {
  size_t line_idx;
  bool quoted;
  std::string name;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  std::vector<Include> includes;
  const std::vector<std::string> lines = lines_of(text);
  std::smatch match;
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find("include") != std::string::npos &&
        std::regex_match(lines[i], match, kInclude))
      includes.push_back({i, match[1] == "\"", match[2]});
  return includes;
}

/// Place of a folder in the order of data flow; -1 for what is no source folder.
int place_of(const std::string& folder) {
  static const std::map<std::string, int> kPlaces = {{"common", 0}, {"model", 1}, {"cpu_sim", 2},
                                                     {"cuda", 2},   {"fuzz", 3},  {"app", 4},
                                                     {"tests", 5}};
  const auto place = kPlaces.find(folder);
  return place == kPlaces.end() ? -1 : place->second;
}

/// Columns of a line of UTF-8.
size_t columns_of(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

struct Head {
  size_t lines = 0;
  size_t prose = 0;  ///< lines that are neither empty nor, further in, part of a table
};

/// The comment that a file opens with, after the line that names an interpreter.
Head head_of(const std::string& path, const std::vector<std::string>& lines) {
  const std::string sign = is_code(path) ? "//" : "#";
  Head head;
  size_t i = !lines.empty() && starts_with(lines[0], "#!") ? 1 : 0;
  for (; i < lines.size() && starts_with(lines[i], sign); ++i) {
    ++head.lines;
    if (lines[i] != sign && !starts_with(lines[i], sign + "  ")) ++head.prose;
  }
  return head;
}

bool needs_head(const std::string& path, const Files& files) {
  if (is_header(path) || ends_with(path, ".cu")) return true;
  if (!is_source(path) || folder_of(path) == "tests") return false;
  return files.count(path.substr(0, path.rfind('.')) + ".h") == 0;
}

Findings matches(const Files& files, const std::function<bool(const std::string&)>& selects,
                 const std::map<std::string, std::regex>& patterns) {
  Findings findings;
  for (const auto& [path, text] : files) {
    if (!selects(path)) continue;
    const std::vector<std::string> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i)
      for (const auto& [what, pattern] : patterns)
        if (std::regex_search(lines[i], pattern)) findings.push_back(at(path, i, what));
  }
  return findings;
}

}  // namespace

Findings include_direction(const Files& files) {
  Findings findings;
  for (const auto& [path, text] : files) {
    if (!is_code(path)) continue;
    const std::string from = folder_of(path);
    for (const Include& include : includes_of(text)) {
      if (!include.quoted) continue;
      const std::string to = folder_of(include.name);
      if (files.count(include.name) == 0)
        findings.push_back(at(path, include.line_idx,
                              "\"" + include.name + "\" is no file as seen from the root"));
      else if (place_of(to) > place_of(from) || (place_of(to) == place_of(from) && to != from))
        findings.push_back(at(path, include.line_idx, from + " includes " + to));
    }
  }
  return findings;
}

Findings device_includes(const Files& files) {
  static const std::regex kHostOnly(
      R"(^(fmt|Eigen|boost|nlohmann|hwy|CLI|benchmark)/|^xxhash|^omp\.h)");
  Findings findings;
  for (const auto& [path, text] : files) {
    if (!ends_with(path, ".cu") && !(folder_of(path) == "common" && is_code(path))) continue;
    std::set<std::string> seen = {path};
    std::vector<std::string> open = {path};
    while (!open.empty()) {
      const std::string current = open.back();
      open.pop_back();
      for (const Include& include : includes_of(files.at(current))) {
        if (!include.quoted && std::regex_search(include.name, kHostOnly))
          findings.push_back(at(current, include.line_idx,
                                "<" + include.name + "> is reached by device code of " + path));
        if (include.quoted && files.count(include.name) > 0 && seen.insert(include.name).second)
          open.push_back(include.name);
      }
    }
  }
  return findings;
}

Findings text_form(const Files& files) {
  Findings findings;
  for (const auto& [path, text] : files) {
    const std::vector<std::string> lines = lines_of(text);
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string& line = lines[i];
      if (columns_of(line) > kColumns) findings.push_back(at(path, i, "over 100 columns"));
      if (line.find('\t') != std::string::npos) findings.push_back(at(path, i, "a tab"));
      if (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())))
        findings.push_back(at(path, i, "space at the end of the line"));
    }
    if (!text.empty() && text.back() != '\n')
      findings.push_back(at(path, lines.size() - 1, "no newline at the end"));
    if (lines.size() > kLines) findings.push_back(at(path, kLines, "over 600 lines"));
  }
  return findings;
}

Findings file_heads(const Files& files) {
  Findings findings;
  for (const auto& [path, text] : files) {
    const std::vector<std::string> lines = lines_of(text);
    const Head head = head_of(path, lines);
    if (head.prose > kHeadLines)
      findings.push_back(at(path, kHeadLines, "a head of over ten lines"));
    if (head.lines == 0 && needs_head(path, files))
      findings.push_back(at(path, 0, "no comment says what the file owns"));
    if (is_header(path) && std::find(lines.begin(), lines.end(), "#pragma once") == lines.end())
      findings.push_back(at(path, 0, "no #pragma once"));
  }
  return findings;
}

Findings banned_words(const Files& files) {
  // Put together here, so that this file may be read by its own rule.
  const std::string unfinished = std::string("\\b(TO") + "DO|FIX" + "ME|HA" + "CK)\\b";
  const std::string places = std::string("(^|[^A-Za-z0-9_.])/(wo") + "rk|ro" + "ot|Us" + "ers)/";
  return matches(files, [](const std::string&) { return true; },
                 {{"a word that marks unfinished work", std::regex(unfinished)},
                  {"a banner", std::regex(R"(^\s*(//|#)+\s*([-=*#~])\2{3,})")},
                  {"a path of somebody's machine", std::regex(places)}});
}

Findings library_calls(const Files& files) {
  return matches(
      files,
      [](const std::string& path) {
        return is_code(path) && place_of(folder_of(path)) >= 0 &&
               place_of(folder_of(path)) < place_of("app");
      },
      {{"library code ends the program", std::regex(R"(\b(exit|_exit|abort|quick_exit)\s*\()")},
       {"library code prints",
        std::regex(R"(\b(printf|puts|putchar|fprintf|fputs|perror)\s*\(|std::c(out|err|log)\b)")},
       {"clang 14 has no such thing",
        std::regex(R"(std::(views|ranges::views|source_location)\b)")}});
}

Findings belongs_to_target(const Files& files) {
  Findings findings;
  for (const auto& [path, text] : files) {
    if (!is_source(path)) continue;
    const std::string folder = path.substr(0, path.rfind('/'));
    const bool collected = (place_of(folder) >= 0 && folder != "common") ||
                           folder == "model/numerics" || folder == "app/yardstick" ||
                           folder == "cuda/ranks" || folder == "tests/package" ||
                           folder == "tests/gpu_check" || folder == "fuzz/targets";
    if (!collected) findings.push_back(at(path, 0, "no target collects this file"));
    if (ends_with(path, ".cu") && folder != "cuda" && folder != "tests/gpu_check")
      findings.push_back(at(path, 0, "device code lies in cuda/ and tests/gpu_check/"));
  }
  return findings;
}

Findings top_level(const std::vector<std::string>& names) {
  static const std::set<std::string> kAllowed = {
      "common",     "model",         "cpu_sim",        "cuda",
      "fuzz",       "app",           "tests",          "docs",
      "README.md",  "LICENSE",       "quickstart",     "check",
      ".ci",        ".git",          "CMakeLists.txt", "CMakePresets.json",
      ".gitignore", ".clang-format", "shared"};
  Findings findings;
  for (const std::string& name : names)
    if (kAllowed.count(name) == 0 && !starts_with(name, "build") && !starts_with(name, ".device_"))
      findings.push_back(name + ": is not in the map of the tree");
  return findings;
}

}  // namespace moetwin::style
