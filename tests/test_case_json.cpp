#include <doctest/doctest.h>

#include <string>

#include "common/check.h"
#include "model/json_reader.h"

namespace moetwin {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "doc");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("json_reader: what it accepts is what the library reads") {
  const std::string text =
      R"( {"a":[1,-2,1.5,[],{}],"b":{"c":"x","d":null},"e":true,"":18446744073709551615} )";
  CHECK(parse_json(text, "doc") == Json::parse(text));
  CHECK(parse_json("\xef\xbb\xbf[1]", "doc") == Json::parse("[1]"));
  CHECK(parse_json("7", "doc") == Json(7));
}

TEST_CASE("json_reader: nesting of 32 is read and 33 is refused, in arrays and in objects") {
  CHECK(refusal(nested(kMaxJsonDepth)) == "");
  CHECK(refusal(nested(kMaxJsonDepth + 1)).find("nested deeper than 32") != std::string::npos);
  CHECK(refusal("{\"a\":" + nested(kMaxJsonDepth - 1) + "}") == "");
  CHECK(refusal("{\"a\":" + nested(kMaxJsonDepth) + "}").compare(0, 4, "a[0]") == 0);
  CHECK(refusal(std::string(5000000, '[')).find("nested deeper") != std::string::npos);
}

TEST_CASE("json_reader: a key given twice is named with its path, in any object") {
  CHECK(refusal(R"({"a":1,"a":1})") == "a: given twice; a key may be given once");
  CHECK(refusal(R"({"a":[{"b":1},{"b":1,"c":2,"b":1}]})").compare(0, 7, "a[1].b:") == 0);
  CHECK(refusal(R"([[0],{"b":null,"b":null}])").compare(0, 5, "[1].b") == 0);
  CHECK(refusal(R"({"a":{"b":1},"c":{"b":1}})") == "");
  CHECK(refusal(R"({"a":1,"\u0061":2})").compare(0, 2, "a:") == 0);
}

TEST_CASE("json_reader: an error names where it stands") {
  CHECK(refusal(R"({"a":{"b":[1,2,x]}})").compare(0, 9, "a.b[2]: p") == 0);
  CHECK(refusal("{} {}").compare(0, 5, "doc: ") == 0);
  CHECK(refusal("").compare(0, 5, "doc: ") == 0);
  CHECK(refusal("{\"a\":[1,1e999]}").compare(0, 5, "a[1]:") == 0);
  CHECK(refusal("[1,] ").compare(0, 5, "[1]: ") == 0);
  CHECK(refusal("[NaN]") != "");
  CHECK(refusal("[1 /* x */]") != "");
  CHECK(refusal("[\"\xff\"]") != "");
}

TEST_CASE("json_reader: strange keys and long values give one short printable line") {
  const std::string long_key(100000, 'k');
  for (const std::string& key :
       {std::string("a\\nb"), std::string("\\u0000"), std::string("\\u2028"), long_key}) {
    const std::string message = refusal("{\"" + key + "\":1,\"" + key + "\":1}");
    CHECK(message.size() > 10);
    CHECK(message.size() < 200);
    for (const char c : message) CHECK((c >= 0x20 && c < 0x7f));
  }
  CHECK(show_value(Json(long_key)).size() < 80);
  CHECK(show_value(Json(std::string(60, 'k'))) == "\"" + std::string(60, 'k') + "\"");
  CHECK(show_value(Json(std::string(61, 'k'))) == "\"" + std::string(60, 'k') + "...\"");
  CHECK(show_value(Json::array({1, 2})) == "an array of 2");
  CHECK(show_value(Json::object()) == "an object");
}

TEST_CASE("json_reader: an integer is written as one and within 64 bits, whatever the limit") {
  const IntegerLimit any{std::numeric_limits<int64_t>::min()};
  int64_t out = 0;
  const auto reads = [&](const char* text) { return try_integer(Json::parse(text), any, out); };
  CHECK(reads("9223372036854775807"));
  CHECK(out == std::numeric_limits<int64_t>::max());
  CHECK(reads("-9223372036854775808"));
  CHECK(out == std::numeric_limits<int64_t>::min());
  CHECK_FALSE(reads("9223372036854775808"));
  CHECK_FALSE(reads("1.0"));
  CHECK_FALSE(reads("1e3"));
  CHECK_FALSE(reads("true"));
  CHECK_FALSE(reads("\"1\""));
  CHECK_THROWS_WITH(read_integer(Json::parse("1e3"), "f", {0, 5}),
                    "f: 1000.0 is not written as an integer; it must be an integer from 0 to 5");
}

TEST_CASE("json_reader: finish refuses the key nobody asked for, and null is not absence") {
  const Json value = Json::parse(R"({"a":1,"b":2})");
  JsonObject object(value, "doc");
  CHECK(object.integer("a", {0, 9}) == 1);
  CHECK_THROWS_WITH(object.finish(), "doc.b: unknown; known are a");
  CHECK(object.integer_or("b", {0, 9}, 7) == 2);
  CHECK_NOTHROW(object.finish());
  CHECK(object.integer_or("c", {0, 9}, 7) == 7);
  const Json null = Json::parse(R"({"a":null})");
  JsonObject holds_null(null, "doc");
  CHECK_THROWS_AS(holds_null.integer_or("a", {0, 9}, 7), InputError);
  CHECK_THROWS_AS(JsonObject(Json(1), "doc"), InputError);
}

}  // namespace
}  // namespace moetwin
