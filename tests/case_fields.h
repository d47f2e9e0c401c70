// Every field of a case file: what it may and may not hold. The tests of case files walk this
// table, and one of them holds it against the fields the reader knows, so that a new field without
// an entry here fails.
#pragma once

#include <string>
#include <vector>

#include "common/check.h"
#include "model/case.h"
#include "model/json_reader.h"

namespace moetwin::test {

enum class FieldType { Integer, Number, Flag, Text, Choice, Section, Array };

struct CaseField {
  std::string path;  ///< dotted
  FieldType type;
  std::string limit;              ///< words of every refusal of a value of the right type
  std::vector<std::string> good;  ///< JSON values: kBaseCase and `with` and the value is a case
  std::vector<std::string> bad;   ///< of the right type, but refused
  std::string with = "{}";        ///< a merge patch on kBaseCase that makes room for `good`
  bool required = false;
};

/// Every section is there, so that any field can be put in or taken out.
inline constexpr const char* kBaseCase =
    R"({"format":1,)"
    R"("shape":{"ranks":4,"experts":32,"topk":2,"hidden":256,"intermediate":256,)"
    R"("max_tokens_per_rank":4},"tokens":[2,0,1,1],"routing":{},"data":{},"kernel":{},)"
    R"("schedule":"random:3","launches":1,"world":{}})";

/// What each routing and data kind needs besides its name.
inline constexpr const char* kAllKinds =
    R"({"routing":{"path":"t.csv","model":"m","domain":"d","layer":0,)"
    R"("topk_idx":[[[0,1],[2,-1]],[],[[5,5]],[[30,31]]]},"data":{"kind":"file","path":"x"}})";

inline constexpr const char* kExplicit =
    R"({"routing":{"kind":"explicit","topk_idx":[[[0,1],[2,3]],[],[[5,5]],[[30,31]]]}})";

inline const std::vector<CaseField>& case_fields() {
  using T = FieldType;
  const std::string long_text = "\"" + std::string(4097, 'a') + "\"";
  const std::string seed_limit = "an integer from 0 to 9223372036854775807";
  const std::string text_limit = "a string of 1 to 4096 bytes";
  const std::vector<std::string> bad_texts = {"\"\"", "\"a\\u0000b\"", long_text};
  static const std::vector<CaseField> fields = {
      {"format", T::Integer, "1", {"1"}, {"0", "2"}},
      {"shape", T::Section, "", {}, {}, "{}", true},
      {"shape.ranks",
       T::Integer,
       "an integer from 1 to 128",
       {"1", "2", "128"},
       {"0", "129"},
       R"({"tokens":null,"shape":{"experts":128}})",
       true},
      {"shape.experts",
       T::Integer,
       "an integer from 1 to 4096",
       {"4", "4096"},
       {"0", "4097"},
       "{}",
       true},
      {"shape.topk", T::Integer, "an integer from 1 to 32", {"1", "32"}, {"0", "33"}, "{}", true},
      {"shape.hidden",
       T::Integer,
       "a multiple of 128 from 128 to 16384",
       {"128", "16384"},
       {"0", "100", "127", "129", "16512"},
       "{}",
       true},
      {"shape.intermediate",
       T::Integer,
       "a multiple of 128 from 128 to 32768",
       {"128", "32768"},
       {"0", "64", "200", "32896"},
       "{}",
       true},
      {"shape.max_tokens_per_rank",
       T::Integer,
       "an integer from 1 to 1048576",
       {"2", "1048576"},
       {"0", "1048577"},
       "{}",
       true},
      {"tokens",
       T::Array,
       "",
       {"[0,0,0,0]", "[4,4,4,4]"},
       {"[]", "[1,2,3]", "[1,2,3,4,4]", "[5,0,0,0]", "[0,0,0,-1]", "[1.0,0,0,0]", "[0,1e0,0,0]",
        "[0,null,0,0]", "[0,[1],0,0]", "[0,\"x\",0,0]", "[0,18446744073709551616,0,0]"}},
      {"routing", T::Section, "", {}, {}},
      {"routing.kind",
       T::Choice,
       "one of uniform, zipf",
       {"\"uniform\"", "\"zipf\"", "\"hot_expert\"", "\"hot_rank\"", "\"group_limited\"",
        "\"round_robin\"", "\"explicit\"", "\"trace\"", "\"counts\"", "\"file\""},
       {"\"Uniform\"", "\"\"", "\"zip\""},
       kAllKinds},
      {"routing.seed",
       T::Integer,
       seed_limit,
       {"0", "9223372036854775807"},
       {"9223372036854775808", "18446744073709551615"}},
      {"routing.masked",
       T::Number,
       "a number from 0.0 to 1.0",
       {"0.0", "0.25", "1"},
       {"-0.001", "1.001", "1e30"}},
      {"routing.duplicates", T::Flag, "true or false", {"true"}, {}},
      {"routing.weights",
       T::Choice,
       "one of normalized, uniform, raw",
       {"\"uniform\"", "\"raw\""},
       {"\"none\""}},
      {"routing.alpha",
       T::Number,
       "a number from 0.0 to 10.0",
       {"0", "0.1", "10"},
       {"-0.5", "10.01", "1e30"}},
      {"routing.expert", T::Integer, "an integer from 0 to 31", {"0", "31"}, {"32"}},
      {"routing.rank", T::Integer, "an integer from 0 to 3", {"0", "3"}, {"4"}},
      {"routing.share", T::Number, "a number from 0.0 to 1.0", {"0", "0.5", "1"}, {"1.5", "1e30"}},
      {"routing.groups", T::Integer, "32", {"1", "2", "32"}, {"0", "5", "33"}},
      {"routing.topk_groups", T::Integer, "an integer from 1 to 4", {"1", "4"}, {"0", "5"}},
      {"routing.offset",
       T::Integer,
       seed_limit,
       {"1", "9223372036854775807"},
       {"9223372036854775808"}},
      {"routing.topk_idx",
       T::Array,
       "",
       {"[[[0,1],[2,-1]],[],[[5,5]],[[30,31]]]", "[[[0,1],[2,0]],[],[[5,5]],[[30,31]]]"},
       {"[]", "[[]]", "[[[0,1],[2,3]],[],[[5,5]]]", "[[[0,1]],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2]],[],[[5,5]],[[30,31]]]", "[[[0,1],[2,32]],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2,-2]],[],[[5,5]],[[30,31]]]", "[[[0,1],[2,1.0]],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2,1e0]],[],[[5,5]],[[30,31]]]", "[[[0,1],[2,null]],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2,\"x\"]],[],[[5,5]],[[30,31]]]", "[[[0,1],2],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2,3]],{},[[5,5]],[[30,31]]]", "[[[0,1],[2,[3]]],[],[[5,5]],[[30,31]]]",
        "[[[0,1],[2,1000000000000000000000000000000]],[],[[5,5]],[[30,31]]]"},
       kExplicit},
      {"routing.topk_weights",
       T::Array,
       "",
       {"[[[0,-1.5],[2e30,3]],[],[[0.1,-0.0]],[[1,1]]]"},
       {"[]", "[[[0,1],[2,3]],[],[[5,5]]]", "[[[0,1],[2,3]],[],[[5,5]],[[1]]]",
        "[[[0,1],[2,3]],[],[[5,5]],[[1,4e38]]]", "[[[0,1],[2,3]],[],[[5,5]],[[1,null]]]",
        "[[[0,1],[2,3]],[],[[5,5]],[[1,\"x\"]]]", "[[[0,1],[2,3]],[],[[5,5]],[[1,1e400]]]"},
       kExplicit},
      {"routing.path", T::Text, text_limit, {"\"a/b.csv\"", "\"/c.npy\""}, bad_texts},
      {"routing.model", T::Text, text_limit, {"\"m\""}, bad_texts},
      {"routing.domain", T::Text, text_limit, {"\"d\""}, bad_texts},
      {"routing.layer",
       T::Integer,
       "an integer from 0 to 4294967295",
       {"1", "4294967295"},
       {"4294967296"}},
      {"data", T::Section, "", {}, {}},
      {"data.kind",
       T::Choice,
       "one of normal, outlier",
       {"\"normal\"", "\"outlier\"", "\"same_sign\"", "\"heavy_tail\"", "\"ties\"", "\"extreme\"",
        "\"file\""},
       {"\"gauss\"", "\"\""},
       kAllKinds},
      {"data.seed", T::Integer, seed_limit, {"0", "9223372036854775807"}, {"9223372036854775808"}},
      {"data.nan", T::Flag, "true or false", {"true"}, {}},
      {"data.path", T::Text, text_limit, {"\"t.safetensors\""}, bad_texts},
      {"kernel", T::Section, "", {}, {}},
      {"kernel.block_m",
       T::Integer,
       "a multiple of 64 from 64 to 128",
       {"64", "128"},
       {"0", "32", "63", "96", "192", "256"}},
      {"kernel.block_n",
       T::Integer,
       "a multiple of 128 from 128 to 256",
       {"128", "256"},
       {"0", "64", "127", "192", "384"}},
      {"kernel.sms_per_rank", T::Integer, "an integer from 1 to 256", {"1", "256"}, {"0", "257"}},
      {"kernel.stages", T::Integer, "an integer from 1 to 8", {"1", "8"}, {"0", "9"}},
      {"kernel.scheduler", T::Choice, "one of wave, ring", {"\"wave\"", "\"ring\""}, {"\"rings\""}},
      {"kernel.ring_blocks",
       T::Integer,
       "an integer from 1 to 1048576",
       {"1", "1048576"},
       {"0", "1048577"}},
      {"kernel.experts_per_wave",
       T::Integer,
       "an integer from 1 to 4096",
       {"1", "4096"},
       {"0", "4097"}},
      {"kernel.clamp",
       T::Number,
       "a number above 0, finite in 32 bits",
       {"10", "0.1", "1e38"},
       {"0", "-0.5", "1e-60", "3.5e38"}},
      {"schedule",
       T::Text,
       "a string of 1 to 65543 bytes",
       {"\"fifo\"", "\"replay:@a.txt\"", "\"timed\""},
       {"\"\"", "\"a\\u0000\"", "\"" + std::string(65544, 'a') + "\""}},
      {"launches", T::Integer, "1 to 1000", {"1", "2", "1000"}, {"0", "1001", "[]"}},
      {"world", T::Section, "", {}, {}},
      {"world.landing",
       T::Choice,
       "one of late, early, random",
       {"\"early\"", "\"random\""},
       {"\"never\""}},
      {"world.poison", T::Integer, "an integer from 0 to 255", {"0", "255"}, {"256"}},
      {"world.late_rank", T::Integer, "an integer from 0 to 3", {"0", "3"}, {"4"}},
      {"world.late_steps",
       T::Integer,
       "an integer from 0 to 1000000000",
       {"0", "1000000000"},
       {"1000000001"}},
      {"world.held_sms",
       T::Array,
       "",
       {"[[0,0]]", "[[3,3],[0,1]]"},
       {"[0]", "[[0]]", "[[0,0,0]]", "[[4,0]]", "[[0,4]]", "[[-1,0]]", "[[0,1.0]]", "[[0,1e0]]",
        "[[0,null]]", "[[0,\"x\"]]", "[[0,0],[0,0]]", "[{}]"}},
      {"world.padding", T::Choice, "one of skip, compute", {"\"compute\""}, {"\"zero\""}},
      {"plant", T::Text, text_limit, {"\"skip-arrive\""}, bad_texts},
  };
  return fields;
}

/// JSON that is no value of a field's type, whatever its limits.
inline std::vector<std::string> wrong_values(FieldType type) {
  const std::string huge = "1" + std::string(30, '0');
  switch (type) {
    case FieldType::Integer:
      return {"null",
              "true",
              "\"x\"",
              "\"4\"",
              "\"\"",
              "1.5",
              "1.0",
              "1e3",
              "1E2",
              "64.0",
              "1e30",
              "-1",
              huge,
              "-" + huge,
              "[]",
              "{}",
              "-2147483649",
              "18446744073709551616",
              "-9223372036854775809"};
    case FieldType::Number:
      return {"null", "true", "\"x\"", "\"0.5\"", "[]", "{}", "-1", "1e39", "-" + huge};
    case FieldType::Flag:
      return {"null", "0", "1", "1.5", "\"true\"", "[]", "{}", huge};
    case FieldType::Text:
      return {"null", "0", "1.5", "true", "[]", "[\"x\"]", "{}", huge};
    case FieldType::Choice:
      return {"null", "0", "-1", "1.5", "true", "[]", "{}", "\"x\"", huge};
    case FieldType::Section:
      return {"null", "0", "1.5", "true", "\"x\"", "[]", "[{}]", huge};
    case FieldType::Array:
      return {"null", "0", "1.5", "true", "\"x\"", "{}", "-1", huge};
  }
  return {};
}

inline Json patched(const std::string& merge_patch) {
  Json document = Json::parse(kBaseCase);
  document.merge_patch(Json::parse(merge_patch));
  return document;
}

/// The parent object of a dotted path, and its last key.
inline Json& parent_of(Json& document, const std::string& path, std::string& key) {
  const size_t dot = path.find('.');
  key = dot == std::string::npos ? path : path.substr(dot + 1);
  return dot == std::string::npos ? document : document.at(path.substr(0, dot));
}

/// The document's text with `members` (JSON text `"key":value,...`) in place of the field.
inline std::string with_members(Json document, const std::string& path,
                                const std::string& members) {
  std::string key;
  Json& parent = parent_of(document, path, key);
  parent.erase(key);
  parent["@"] = 0;
  std::string text = document.dump();
  const std::string mark = "\"@\":0";
  return text.replace(text.find(mark), mark.size(), members);
}

inline std::string with_value(const Json& document, const std::string& path,
                              const std::string& value) {
  const std::string key = path.substr(path.find('.') + 1);
  return with_members(document, path, "\"" + key + "\":" + value);
}

/// What parse_case refuses the text with; empty if it takes it. Any other exception goes through.
inline std::string refusal(const std::string& text) {
  try {
    parse_case(text, "/cases");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// One line that begins with the field, or with a part of it.
inline bool names_field(const std::string& message, const std::string& path) {
  const bool one_line = message.size() < 400 && message.find('\n') == std::string::npos;
  const bool begins = message.compare(0, path.size(), path) == 0 && message.size() > path.size();
  return one_line && begins && (message[path.size()] == ':' || message[path.size()] == '[') &&
         message.find(": ") != std::string::npos;
}

}  // namespace moetwin::test
