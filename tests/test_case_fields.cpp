#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/case_fields.h"

namespace moetwin {
namespace {

using test::case_fields;
using test::CaseField;
using test::kBaseCase;
using test::names_field;
using test::patched;
using test::refusal;
using test::with_members;
using test::with_value;

std::set<std::string> split(const std::string& list) {
  std::set<std::string> words;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    words.insert(list.substr(begin, end - begin));
    begin = end + 2;
  }
  return words;
}

TEST_CASE("case: the table of fields holds exactly the fields the reader knows") {
  for (const std::string section : {"", "shape", "routing", "data", "kernel", "world"}) {
    CAPTURE(section);
    const std::string prefix = section.empty() ? "" : section + ".";
    std::set<std::string> listed;
    for (const CaseField& field : case_fields()) {
      if (field.path.compare(0, prefix.size(), prefix) != 0) continue;
      const std::string key = field.path.substr(prefix.size());
      if (key.find('.') == std::string::npos) listed.insert(key);
    }
    const std::string message =
        refusal(with_members(Json::parse(kBaseCase), prefix + "zzz", "\"zzz\":1"));
    const std::string start = prefix + "zzz: unknown; known are ";
    REQUIRE(message.compare(0, start.size(), start) == 0);
    CHECK(split(message.substr(start.size())) == listed);
  }
}

TEST_CASE("case: each field takes the values at its limits, and they reach the case") {
  for (const CaseField& field : case_fields()) {
    if (field.good.empty()) continue;
    CAPTURE(field.path);
    const Json document = patched(field.with);
    std::vector<std::string> texts;
    for (const std::string& value : field.good) {
      texts.push_back(with_value(document, field.path, value));
    }
    std::string key;
    Json without = document;
    test::parent_of(without, field.path, key).erase(key);
    if (refusal(without.dump()).empty()) texts.push_back(without.dump());

    const Case first = parse_case(texts[0], "/cases");
    bool matters = field.path == "format";
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(refusal(text) == "");
      const Case c = parse_case(text, "/cases");
      matters = matters || !(c == first);
      const std::string written = case_to_json(c, "/cases");
      CHECK(parse_case(written, "/cases") == c);
    }
    CHECK(matters);
  }
}

TEST_CASE("case: each field refuses values out of range in one line with field and limit") {
  for (const CaseField& field : case_fields()) {
    for (const std::string& value : field.bad) {
      CAPTURE(field.path);
      CAPTURE(value.substr(0, 100));
      const std::string message = refusal(with_value(patched(field.with), field.path, value));
      CAPTURE(message);
      CHECK(names_field(message, field.path));
      // Too large for any number: the parser itself refuses it.
      if (value.find("e400") == std::string::npos) {
        CHECK(message.find(field.limit) != std::string::npos);
      }
    }
  }
}

TEST_CASE("case: each field refuses every other type, numbers that overflow and deep nesting") {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  const std::string deep_objects = [] {
    std::string text = "1";
    for (int i = 0; i < 1000; ++i) text = "{\"a\":" + text + "}";
    return text;
  }();
  for (const CaseField& field : case_fields()) {
    CAPTURE(field.path);
    const Json document = patched(field.with);
    for (const std::string& value : test::wrong_values(field.type)) {
      CAPTURE(value);
      const std::string message = refusal(with_value(document, field.path, value));
      CAPTURE(message);
      CHECK(names_field(message, field.path));
      CHECK(message.find(field.limit) != std::string::npos);
    }
    CHECK(names_field(refusal(with_value(document, field.path, "1e400")), field.path));
    CHECK(names_field(refusal(with_value(document, field.path, "-1e400")), field.path));
    CHECK(names_field(refusal(with_value(document, field.path, deep)), field.path));
    const std::string message = refusal(with_value(document, field.path, deep_objects));
    CHECK(message.compare(0, field.path.size() + 2, field.path + ".a") == 0);
    CHECK(message.find("nested deeper than 32 levels") != std::string::npos);
  }
}

TEST_CASE("case: a required field that is missing is named, any other may be left out") {
  for (const CaseField& field : case_fields()) {
    CAPTURE(field.path);
    Json document = Json::parse(kBaseCase);
    std::string key;
    test::parent_of(document, field.path, key).erase(key);
    const std::string message = refusal(document.dump());
    if (field.required) {
      CHECK(names_field(message, field.path));
      CHECK(message.find("missing") != std::string::npos);
    } else {
      CHECK(message == "");
    }
  }
}

TEST_CASE("case: what a kind needs besides its name is asked for by name") {
  struct Need {
    const char* section;
    const char* kind;
    const char* key;
  };
  const Need needs[] = {{"routing", "explicit", "topk_idx"},
                        {"routing", "trace", "path"},
                        {"routing", "counts", "path"},
                        {"routing", "counts", "model"},
                        {"routing", "counts", "domain"},
                        {"routing", "counts", "layer"},
                        {"data", "file", "path"}};
  for (const Need& need : needs) {
    Json document = patched(test::kAllKinds);
    document[need.section]["kind"] = need.kind;
    CHECK(refusal(document.dump()) == "");
    document[need.section].erase(need.key);
    const std::string message = refusal(document.dump());
    CAPTURE(message);
    CHECK(names_field(message, std::string(need.section) + "." + need.key));
    CHECK(message.find(need.kind) != std::string::npos);
  }
  const std::string message = refusal(patched(R"({"routing":{"kind":"file"}})").dump());
  CHECK(names_field(message, "routing.kind"));
  CHECK(message.find("data.kind") != std::string::npos);
}

TEST_CASE("case: a key given twice is refused at every level") {
  for (const CaseField& field : case_fields()) {
    CAPTURE(field.path);
    const std::string key = field.path.substr(field.path.find('.') + 1);
    const std::string value = field.good.empty() ? "{}" : field.good[0];
    const std::string member = "\"" + key + "\":" + value;
    const std::string text = with_members(patched(field.with), field.path, member + "," + member);
    const std::string message = refusal(text);
    CAPTURE(message);
    CHECK(names_field(message, field.path));
    CHECK(message.find("given twice") != std::string::npos);
  }
}

TEST_CASE("case: random combinations of legal values survive writing and reading") {
  std::mt19937_64 random(7);
  uint32_t accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    Json document = Json::parse(kBaseCase);
    for (int j = 0; j < 12; ++j) {
      const CaseField& field = case_fields()[random() % case_fields().size()];
      if (field.good.empty()) continue;
      document.merge_patch(Json::parse(field.with));
      std::string key;
      Json& parent = test::parent_of(document, field.path, key);
      parent[key] = Json::parse(field.good[random() % field.good.size()]);
    }
    const std::string text = document.dump();
    CAPTURE(text);
    const std::string message = refusal(text);
    CHECK(message.find('\n') == std::string::npos);
    if (!message.empty()) continue;
    ++accepted;
    const Case c = parse_case(text, "/cases");
    CHECK(parse_case(case_to_json(c, "/cases"), "/cases") == c);
    CHECK(parse_case(case_to_json(c, "/elsewhere"), "/elsewhere") == c);
  }
  CHECK(accepted > 500);
}

bool is_printable(char c) { return c >= 0x20 && c < 0x7f; }

const std::string& sample() {
  static const std::string text = patched(R"({
    "routing":{"kind":"explicit","topk_idx":[[[0,1],[2,-1]],[],[[5,5]],[[30,31]]],
               "topk_weights":[[[0.5,1e-3],[2,-1.25]],[],[[5,5]],[[30,31]]],"masked":0.5},
    "data":{"kind":"extreme","nan":true,"seed":12},
    "kernel":{"block_m":128,"clamp":10.5,"ring_blocks":77},
    "launches":[{},{"tokens":[2,0,1,1],"shape":{"hidden":128}}],
    "world":{"landing":"random","held_sms":[[0,1]],"late_rank":2},"plant":"\u00e9t\u00e9"})")
                                      .dump();
  return text;
}

TEST_CASE("case: JSON cut off at any byte is one clear line") {
  REQUIRE(refusal(sample()) == "");
  for (size_t length = 0; length < sample().size(); ++length) {
    CAPTURE(length);
    const std::string message = refusal(sample().substr(0, length));
    CAPTURE(message);
    CHECK(message.find(": ") != std::string::npos);
    CHECK(message.find("parse error at line 1") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 400);
  }
  CHECK(names_field(refusal("{\"shape\":{\"ranks\":4,\"experts\":"), "shape.experts"));
  CHECK(names_field(refusal("{\"tokens\":[1,2,"), "tokens[2]"));
}

TEST_CASE("case: JSON with any byte changed is read or refused in one line, never anything else") {
  const std::string replacements = std::string("\0\n\x7f\xff\"\\{}[],:-+.e19zn ", 22);
  for (size_t at = 0; at < sample().size(); ++at) {
    for (const char byte : replacements) {
      std::string text = sample();
      text[at] = byte;
      CAPTURE(text);
      std::string message;
      CHECK_NOTHROW(message = refusal(text));
      CHECK(message.size() < 600);
      CHECK_MESSAGE(std::all_of(message.begin(), message.end(), is_printable), message);
    }
  }
}

}  // namespace
}  // namespace moetwin
