#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/command_line_program.h"

namespace moetwin {
namespace {

using Json = nlohmann::json;

/// The browser to open pages with; empty where there is none.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0)
      return name;
  return "";
}

/// The page after its script has run, as the browser gives it back.
std::string opened(const ProgramDirectory& directory, const std::string& page) {
  const std::string out = directory.path("opened.html");
  const std::string command =
      "HOME='" + directory.path("home") + "' " + browser() +
      " --headless --no-sandbox --disable-gpu --virtual-time-budget=10000 --user-data-dir='" +
      directory.path("home") + "' --dump-dom 'file://" + directory.path(page) + "' >'" + out +
      "' 2>/dev/null </dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  return directory.read("opened.html");
}

/// Text of each element that has an id and no child.
std::map<std::string, std::string> texts_of(const std::string& html) {
  // By hand: std::regex needs stack for every character of a match, and the page's data are one.
  std::map<std::string, std::string> texts;
  const std::string opening = " id=\"";
  for (size_t at = html.find(opening); at != std::string::npos; at = html.find(opening, at)) {
    at += opening.size();
    const size_t quote = html.find('"', at);
    const size_t begin = html.find('>', quote) + 1;
    const size_t end = html.find('<', begin);
    if (quote == std::string::npos || begin == 0 || end == std::string::npos) break;
    texts[html.substr(at, quote - at)] = html.substr(begin, end - begin);
  }
  return texts;
}

Json embedded(const std::string& html) {
  const std::string opening = "<script type=\"application/json\" id=\"report\">";
  const size_t begin = html.find(opening) + opening.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

void check_ranks(const Json& report, std::map<std::string, std::string>& shown) {
  const auto& counts = report["received"]["counts"];
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const std::string r = std::to_string(rank);
    for (size_t expert = 0; expert < counts[rank].size(); ++expert)
      CHECK(shown["sent-" + r + "-" + std::to_string(expert)] == counts[rank][expert].dump());
    for (const std::string key : {"tokens", "rows", "blocks", "laps"})
      CHECK(shown["received-" + r + "-" + key] == report["received"]["ranks"][rank][key].dump());
  }
}

}  // namespace

TEST_CASE("command line: report writes a page that holds what --json prints and needs no network") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  REQUIRE(directory.run("report c.json --out page --no-math").status == 0);
  const Ran ran = directory.run("report c.json --out page --json --schedule timed");
  REQUIRE(ran.status == 0);
  const Json report = ran.json();
  CHECK(keys(report) == std::set<std::string>{"case", "kernel", "launch", "clock", "span",
                                              "received", "slots", "over_time", "waits", "run"});
  CHECK(report["clock"] == "nanoseconds");
  CHECK(report["run"]["error"]["equal_to_naive"] == true);
  // What crosses the page's sums: every routed slot is received, written and summed.
  uint64_t sent = 0;
  for (const auto& row : report["received"]["counts"])
    for (const auto& count : row) sent += count.get<uint64_t>();
  CHECK(sent == 32);
  CHECK(report["slots"].size() == sent);
  for (const auto& slot : report["slots"]) CHECK(!slot["summed"].is_null());
  for (const auto& rank : report["over_time"]) {
    CHECK(rank["tokens_done"].back()[1] == 8);
    CHECK(rank["pool_ring"].back()[1] == 0);
    CHECK(rank["bytes_in_flight"].back()[1] == 0);
  }
  const std::string page = directory.read("page/index.html");
  CHECK(embedded(page) == report);
  std::string elsewhere = page;
  const std::string svg = "http://www.w3.org/2000/svg";
  elsewhere.replace(elsewhere.find(svg), svg.size(), "");
  for (const char* sign : {"://", " src=", " href=", "url(", "@import", "fetch("})
    CHECK_MESSAGE(elsewhere.find(sign) == std::string::npos, sign);
}

TEST_CASE("command line: the numbers that a browser shows of a report are those of --json") {
  if (browser().empty()) {
    MESSAGE("skipped: there is no chromium to open the page with");
    return;
  }
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --set shape.experts=8 --out c.json").status == 0);
  const Ran ran = directory.run("report c.json --out page --json --schedule timed");
  REQUIRE(ran.status == 0);
  const Json report = ran.json();
  std::map<std::string, std::string> shown = texts_of(opened(directory, "page/index.html"));
  check_ranks(report, shown);
  REQUIRE(report["waits"].size() > 10);
  for (size_t i = 0; i < report["waits"].size(); ++i) {
    const std::string wait = "wait-" + std::to_string(i) + "-";
    CHECK(shown[wait + "total"] == report["waits"][i]["total"].dump());
    CHECK(shown[wait + "waits"] == report["waits"][i]["waits"].dump());
  }
  CHECK(shown["error-0-value"] == "equal bits at every stage");
  CHECK(std::stod(shown["error-1-value"]) == report["run"]["error"]["relative_rms"].get<double>());
  size_t first_expert = 0;
  for (const auto& slot : report["slots"])
    if (slot["expert"] == 0)
      CHECK(shown["slot-" + std::to_string(first_expert++) + "-row"] == slot["row"].dump());
  CHECK(first_expert > 0);
}

TEST_CASE("command line: a report of a run that hangs names what waits, whatever the file's name") {
  const ProgramDirectory directory;
  // A name that would end or open an element where it is not escaped.
  const std::string name = "<!--<script>.json";
  REQUIRE(
      directory.run("case tiny --set 'plant=drop PullPublishRow' --out '" + name + "'").status ==
      0);
  const Ran ran = directory.run("report '" + name + "' --out page --json");
  CHECK(ran.status == 1);
  const Json report = ran.json();
  CHECK(embedded(directory.read("page/index.html")) == report);
  const auto& findings = report["run"]["findings"];
  REQUIRE(!findings.empty());
  CHECK(directory.paste(findings[0]["repeat"].get<std::string>()).status == 1);
  uint64_t unended = 0;
  for (const auto& wait : report["waits"])
    if (wait["step"] == "LoadAWaitsForRows") unended += wait["unended"].get<uint64_t>();
  CHECK(unended > 0);
  if (browser().empty()) {
    MESSAGE("not opened: there is no chromium");
    return;
  }
  std::map<std::string, std::string> shown = texts_of(opened(directory, "page/index.html"));
  check_ranks(report, shown);
  CHECK(shown["repeat"].find("&lt;!--&lt;script&gt;.json") != std::string::npos);
}

TEST_CASE(
    "command line: a difference from the references that report finds is repeated by its command") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --set plant=F50 --out c.json").status == 0);
  const Ran ran = directory.run("report c.json --json");
  CHECK(ran.status == 1);
  const Json report = ran.json();
  const auto& findings = report["run"]["findings"];
  REQUIRE(!findings.empty());
  CHECK(findings[0]["class"] == "mismatch");
  const Ran again = directory.paste(findings[0]["repeat"].get<std::string>());
  CHECK(again.status == 1);
  CHECK(again.out.find("mismatch") != std::string::npos);
}

TEST_CASE("command line: report refuses a page that cannot be written") {
  const ProgramDirectory directory;
  REQUIRE(directory.run("case tiny --out c.json").status == 0);
  for (const char* arguments : {"report c.json", "report c.json --out no/such/directory",
                                "report c.json --out c.json", "report no.json --out page"}) {
    CAPTURE(arguments);
    const Ran ran = directory.run(arguments);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
    CHECK(ran.out.empty());
  }
}

}  // namespace moetwin
