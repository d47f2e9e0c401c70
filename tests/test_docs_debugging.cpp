// docs/debugging.md is run: each command in it, in order, in one directory; what it shows of the
// output must be there.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "common/step.h"
#include "common/wait_table.h"
#include "tests/command_line_program.h"
#include "tests/paths.h"

namespace moetwin {
namespace {

/// A command of the guide and the lines it shows of the output; "..." are lines left out.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string guide() {
  std::ostringstream text;
  text << std::ifstream(source_root() + "/docs/debugging.md").rdbuf();
  return text.str();
}

std::vector<Shown> commands_of(const std::string& text) {
  const std::string indent = "    ";
  const std::string prompt = indent + "$ ";
  std::vector<Shown> commands;
  bool goes_on = false;
  bool in_block = false;
  for (std::string line : lines_of(text)) {
    if (line.compare(0, prompt.size(), prompt) == 0) {
      commands.push_back({line.substr(prompt.size()), {}});
      in_block = true;
    } else if (goes_on) {
      commands.back().command += line;
    } else if (in_block && line.compare(0, indent.size(), indent) == 0) {
      commands.back().lines.push_back(line.substr(indent.size()));
      continue;
    } else {
      in_block = false;
      continue;
    }
    std::string& command = commands.back().command;
    goes_on = command.back() == '\\';
    if (goes_on) command.pop_back();
  }
  return commands;
}

/// A line without the numbers that count control events: they move when a role program does.
std::string without_events(const std::string& line) {
  static const std::regex step(R"(^(  [a-zL][\w ]*?  +)\d+( to \d+)?(  .*)$)");
  static const std::regex row(
      R"(^( +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+ +\d+\+\d+ +)\d+( +\d+ +)(\d+|never)(.*)$)");
  std::string out = std::regex_replace(line, step, "$1#$3");
  out = std::regex_replace(out, row, "$1#$2#$4");
  return std::regex_replace(out, std::regex(" +"), " ");
}

/// Empty, or the first line shown that the output has not got where it should be.
std::string missing(const Shown& shown, const std::string& output) {
  const std::vector<std::string> lines = lines_of(output);
  size_t at = 0;
  bool anywhere = false;
  for (const std::string& line : shown.lines) {
    if (line == "...") {
      anywhere = true;
      continue;
    }
    const std::string wanted = without_events(line);
    const size_t begin = at;
    while (at < lines.size() && without_events(lines[at]) != wanted) ++at;
    if (at == lines.size() || (!anywhere && at != begin)) return line;
    ++at;
    anywhere = false;
  }
  return "";
}

}  // namespace

TEST_CASE("docs: every command of debugging.md shows what the guide says it shows") {
  const ProgramDirectory directory;
  const std::vector<Shown> commands = commands_of(guide());
  REQUIRE(commands.size() >= 18);
  size_t lines = 0;
  for (const Shown& shown : commands) {
    CAPTURE(shown.command);
    const Ran ran = directory.paste(shown.command);
    CHECK((ran.status == 0 || ran.status == 1));
    const std::string wanted = missing(shown, ran.out);
    CHECK_MESSAGE(wanted.empty(), "not shown: ", wanted, "\nby:\n", ran.out);
    lines += shown.lines.size();
  }
  CHECK(lines > 50);
}

TEST_CASE("docs: the reader of what debugging.md shows notices a line that is not there") {
  const Shown shown{"", {"...", "a", "b", "...", "d"}};
  CHECK(missing(shown, "x\na\nb\nc\nd\n").empty());
  CHECK(missing(shown, "x\na\nc\nb\nd\n") == "b");
  CHECK(missing(shown, "x\na\nb\nc\n") == "d");
  CHECK(without_events("  looked up   143  rank 0 SM 0") ==
        without_events("  looked up     7  rank 0 SM 0"));
  CHECK(without_events("  looked up   143  rank 0 SM 0") !=
        without_events("  looked up   143  rank 0 SM 1"));
}

TEST_CASE("docs: the guide's third and fifth step alone lead from F32 to the wait it left out") {
  const ProgramDirectory directory;
  std::string make;
  for (const Shown& shown : commands_of(guide()))
    if (shown.command.find("plant=F32") != std::string::npos) make = shown.command;
  REQUIRE(!make.empty());
  REQUIRE(directory.paste(make).status == 0);
  const nlohmann::json found = directory.run("run late.json --check --json").json();
  // What would have ordered the accesses: a release, and the wait that acquires it.
  std::string cause;
  const std::regex hint(R"(behind an acquire of what (\w+) releases)");
  for (const auto& finding : found["findings"]) {
    std::smatch match;
    const std::string text = finding["text"].get<std::string>();
    if (finding["class"] != "race" || !std::regex_search(text, match, hint)) continue;
    for (const WordProvider& provider : kWordProviders)
      if (match[1] == step_name(provider.provides)) cause = step_name(provider.wait);
  }
  CHECK(cause == "RankWait");
}

}  // namespace moetwin
