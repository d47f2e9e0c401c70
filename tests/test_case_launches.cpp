#include <doctest/doctest.h>

#include <string>

#include "tests/case_fields.h"

namespace moetwin {
namespace {

using test::kBaseCase;
using test::names_field;
using test::patched;
using test::refusal;
using test::with_value;

std::string with_launches(const std::string& launches, const std::string& patch = "{}") {
  return with_value(patched(patch), "launches", launches);
}

TEST_CASE("launches: launch i of a number draws routing and x with seed + i") {
  const Case c = parse_case(
      with_launches("3", R"({"routing":{"seed":9223372036854775807},"data":{"seed":20}})"), "");
  REQUIRE(c.launches.size() == 3);
  for (uint64_t i = 0; i < 3; ++i) {
    CHECK(c.launches[i].routing.seed == 9223372036854775807ull + i);
    CHECK(c.launches[i].data.seed == 20 + i);
    CHECK(c.launches[i].shape == c.shape);
    CHECK(c.launches[i].tokens == c.tokens);
  }
  CHECK(c.data.seed == 20);
  CHECK(parse_case(case_to_json(c), "") == c);
  CHECK(case_to_json(c).find("\"launches\": 3") != std::string::npos);
}

TEST_CASE("launches: a patch changes what it names and leaves the case and its neighbours alone") {
  const std::string text = with_launches(
      R"([{},{"tokens":[4,4,4,4]},{"routing":{"kind":"zipf","seed":5}},{"data":{"seed":9}},
          {"shape":{"hidden":128,"intermediate":512,"max_tokens_per_rank":2}},
          {"tokens":null},{"routing":null}])",
      R"({"routing":{"alpha":0.5,"masked":0.25}})");
  const Case c = parse_case(text, "");
  REQUIRE(c.launches.size() == 7);
  const LaunchSpec base{c.shape, c.tokens, c.routing, c.data};
  CHECK(c.launches[0] == base);

  LaunchSpec wanted = base;
  wanted.tokens = {4, 4, 4, 4};
  CHECK(c.launches[1] == wanted);

  wanted = base;
  wanted.routing.kind = RoutingKind::Zipf;
  wanted.routing.seed = 5;
  CHECK(c.launches[2] == wanted);
  CHECK(c.launches[2].routing.alpha == 0.5);

  wanted = base;
  wanted.data.seed = 9;
  CHECK(c.launches[3] == wanted);

  wanted = base;
  wanted.shape.hidden = 128;
  wanted.shape.intermediate = 512;
  wanted.shape.max_tokens_per_rank = 2;
  CHECK(c.launches[4] == wanted);

  wanted = base;
  wanted.tokens = {4, 4, 4, 4};
  CHECK(c.launches[5] == wanted);

  wanted = base;
  wanted.routing = RoutingSpec{};
  CHECK(c.launches[6] == wanted);

  CHECK(parse_case(case_to_json(c), "") == c);
}

TEST_CASE("launches: a null inside a patch restores a default, and takes away a required field") {
  const Case c =
      parse_case(with_launches(R"([{"routing":{"alpha":null},"data":{"seed":null}}])",
                               R"({"routing":{"kind":"zipf","alpha":3},"data":{"seed":8}})"),
                 "");
  CHECK(c.launches[0].routing.alpha == 1.2);
  CHECK(c.launches[0].routing.kind == RoutingKind::Zipf);
  CHECK(c.launches[0].data.seed == 1);
  CHECK(parse_case(case_to_json(c), "") == c);
  const std::string message = refusal(with_launches(R"([{},{"shape":{"hidden":null}}])"));
  CHECK(names_field(message, "launches[1].shape.hidden"));
}

TEST_CASE("launches: without tokens in the case each launch fills its own capacity") {
  const Case c = parse_case(
      with_launches(R"([{"shape":{"max_tokens_per_rank":9}},{}])", R"({"tokens":null})"), "");
  CHECK(c.launches[0].tokens == std::vector<uint32_t>(4, 9));
  CHECK(c.launches[1].tokens == std::vector<uint32_t>(4, 4));
  CHECK(parse_case(case_to_json(c), "") == c);
}

bool may_change(const std::string& path) {
  return path == "tokens" || path.compare(0, 8, "routing.") == 0 || path == "data.seed" ||
         path == "shape.hidden" || path == "shape.intermediate" ||
         path == "shape.max_tokens_per_rank";
}

// Text, not a document: a value such as 1e0 must arrive as it is written.
std::string second_patch(const std::string& path, const std::string& value) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return "[{},{\"" + path + "\":" + value + "}]";
  return "[{},{\"" + path.substr(0, dot) + "\":{\"" + path.substr(dot + 1) + "\":" + value + "}}]";
}

TEST_CASE("launches: any other field of a case is refused in a patch") {
  for (const test::CaseField& field : test::case_fields()) {
    const std::string& path = field.path;
    CAPTURE(path);
    if (path == "routing" || path == "data" || path == "shape") continue;
    const std::string message = refusal(
        with_launches(second_patch(path, field.good.empty() ? "{}" : field.good[0]), field.with));
    CAPTURE(message);
    if (may_change(path)) {
      CHECK(message == "");
      continue;
    }
    const std::string section = path.substr(0, path.find('.'));
    const bool partly = section == "shape" || section == "data";
    CHECK(names_field(message, "launches[1]." + (partly ? path : section)));
    CHECK(message.find("may not differ between launches") != std::string::npos);
  }
  CHECK(names_field(refusal(with_launches(R"([{"zzz":1}])")), "launches[0].zzz"));
  CHECK(names_field(refusal(with_launches(R"([{"data":null}])")), "launches[0].data"));
  CHECK(names_field(refusal(with_launches(R"([{"shape":null}])")), "launches[0].shape"));
  CHECK(names_field(refusal(with_launches(R"([5])")), "launches[0]"));
  CHECK(names_field(refusal(with_launches(R"([{},null])")), "launches[1]"));
  CHECK(names_field(refusal(with_launches(R"([{"launches":2}])")), "launches[0].launches"));
}

TEST_CASE("launches: a patched value is checked like the field itself, under the launch's name") {
  for (const test::CaseField& field : test::case_fields()) {
    if (!may_change(field.path)) continue;
    for (const std::string& value : field.bad) {
      // A number too large for the parser stands where it is written, not where it is used.
      if (value.find("e400") != std::string::npos) continue;
      CAPTURE(field.path);
      CAPTURE(value.substr(0, 100));
      const std::string message =
          refusal(with_launches(second_patch(field.path, value), field.with));
      CAPTURE(message);
      CHECK(names_field(message, "launches[1]." + field.path));
      CHECK(message.find(field.limit) != std::string::npos);
    }
  }
}

TEST_CASE("launches: tokens and explicit routing must fit each other in every launch") {
  CHECK(names_field(refusal(with_launches(R"([{},{"tokens":[1,0,1,1]}])", test::kExplicit)),
                    "launches[1].routing.topk_idx"));
  CHECK(names_field(
      refusal(with_launches(R"([{},{"shape":{"max_tokens_per_rank":1}}])", test::kExplicit)),
      "launches[1].tokens"));
  const Case c = parse_case(
      with_launches(R"([{},{"tokens":[1,0,0,0],"routing":{"topk_idx":[[[7,8]],[],[],[]]}}])",
                    test::kExplicit),
      "");
  CHECK(c.launches[1].routing.topk_idx[0][0] == std::vector<int64_t>{7, 8});
  CHECK(parse_case(case_to_json(c), "") == c);
}

TEST_CASE("launches: explicit routing times launches is bounded") {
  std::string rows = "[[0,1]";
  for (int i = 1; i < 20000; ++i) rows += ",[0,1]";
  rows += "]";
  const std::string patch = R"({"shape":{"max_tokens_per_rank":20000},"tokens":null,)"
                            R"("routing":{"kind":"explicit","topk_idx":[)" +
                            rows + "," + rows + "," + rows + "," + rows + "]}}";
  CHECK(refusal(with_launches("2", patch)) == "");
  const std::string message = refusal(with_launches("1000", patch));
  CHECK(names_field(message, "launches"));
  CHECK(message.find("160000000") != std::string::npos);
  CHECK(message.find("67108864") != std::string::npos);
}

}  // namespace
}  // namespace moetwin
