#include <doctest/doctest.h>

#include <cstring>

#include "model/npy.h"
#include "model/trace_files.h"
#include "tests/input_checks.h"

namespace moetwin {
namespace {
using namespace test;

/// What hostile bytes are made of.
constexpr std::string_view kChanges("\0\1\t\n\",9-{[]\x7F\x80\xFF", 14);

constexpr TraceLimits kLimits{8, 2, 3};

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string csv_refusal(std::string_view text) {
  return refusal([&] { parse_trace_csv(text, "t.csv", kLimits); });
}

std::string jsonl_refusal(std::string_view text) {
  return refusal([&] { parse_trace_jsonl(text, "t.jsonl", kLimits); });
}

std::string npy_refusal(std::string_view text) {
  return refusal([&] { parse_trace_npy(bytes_of(text), "t.npy", kLimits); });
}

std::string npy_file(const std::string& header, std::string_view data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + header + std::string(data);
}

std::string npy_header(const std::string& type, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.data(), text.size());
  return text;
}

/// Every prefix of `text`, and `text` with each byte replaced by a few others, is accepted or
/// refused, but nothing else.
template <class Parse>
void check_hostile(const std::string& text, Parse&& parse) {
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string prefix = text.substr(0, length);
    CHECK_NOTHROW(refusal([&] { parse(prefix); }));
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char value : kChanges) {
      std::string changed = text;
      changed[at] = value;
      CHECK_NOTHROW(refusal([&] { parse(changed); }));
    }
  }
}

}  // namespace

TEST_CASE("trace_files: a CSV's columns are found by name, in any order, others ignored") {
  const Trace trace = parse_trace_csv(
      "\xEF\xBB\xBF"
      "e1,note,w0,row,e0,w1\r\n"
      "1,\"a, \"\"b\"\"\nc\", 0.5,x, 7 ,-1e-3\r\n"
      "-1,,3,,0,0\r\n\r\n",
      "t.csv", kLimits);
  CHECK(trace.rows == 2);
  CHECK(trace.topk_idx == std::vector<int32_t>{7, 1, 0, -1});
  CHECK(trace.topk_weights == std::vector<float>{0.5f, -1e-3f, 3, 0});
  CHECK(parse_trace_csv("e0,e1\n1,2", "t.csv", kLimits).topk_weights.empty());
  CHECK(parse_trace_csv("e0,e1\n", "t.csv", kLimits).rows == 0);
}

TEST_CASE("trace_files: a CSV that does not fit is refused with row, column, value and limit") {
  CHECK(csv_refusal("") == "t.csv: is empty; a CSV file begins with a header");
  CHECK(csv_refusal("\n\n") == "t.csv: is empty; a CSV file begins with a header");
  CHECK(csv_refusal("a,b\n1,2\n") == "t.csv: lacks column e0; shape.topk is 2");
  CHECK(csv_refusal("e0\n1\n") == "t.csv: lacks column e1; shape.topk is 2");
  CHECK(csv_refusal("e0,e1,e2\n1,2,3\n") == "t.csv: column e2 is beyond e1; shape.topk is 2");
  CHECK(csv_refusal("e0,e1,w1\n1,2,3\n") == "t.csv: lacks column w0; shape.topk is 2");
  CHECK(csv_refusal("e0,e1,e0\n1,2,3\n") == "t.csv: column \"e0\" is there twice");
  CHECK(csv_refusal("e0,e1\n1,2\n3\n") == "t.csv row 2: 1 fields; the header has 2");
  CHECK(csv_refusal("e0,e1\n1,2,3\n") == "t.csv row 1: 3 fields; the header has 2");
  CHECK(csv_refusal("e0,e1\n1,2\n\n3,4\n") == "t.csv row 2: 1 fields; the header has 2");
  CHECK(csv_refusal("e0,e1\n1,2\n3,8\n") ==
        "t.csv row 2 column e1: \"8\" is not -1 to 7 (shape.experts is 8)");
  for (const char* id : {"", "x", "-2", "1.0", "1e0", "+1", "0x1", "1 2", "99999999999999999999"}) {
    CAPTURE(id);
    CHECK(contains(csv_refusal("e0,e1\n0," + std::string(id) + "\n"), "t.csv row 1 column e1: \""));
  }
  for (const char* weight : {"", "x", "nan", "inf", "-inf", "1e39", "1e999", "0x1p3", "1,5"}) {
    CAPTURE(weight);
    CHECK(csv_refusal("e0,e1,w0,w1\n0,0,0," + std::string(weight) + "\n") != "accepted");
  }
  CHECK(csv_refusal("e0,e1\n\"1,2\n") == "t.csv row 1: a quote is not closed");
  CHECK(csv_refusal("e0,e1\n\"1\"x,2\n") == "t.csv row 1: text follows a closing quote");
  CHECK(contains(csv_refusal("e0,e1\n0,\x01\xFF\n"), "\"??\" is not"));
}

TEST_CASE("trace_files: blank lines without end are read in linear time") {
  const std::string blank(size_t{4} << 20, '\n');
  CHECK(contains(csv_refusal("e0,e1\n" + blank + "1,2\n"), "t.csv row 1: 1 fields"));
  // With one column a blank line is a record; each is looked at once.
  const TraceLimits single{8, 1, 0};
  CHECK(contains(refusal([&] { parse_trace_csv("e0\n" + blank + "1\n", "t.csv", single); }),
                 "t.csv row 1 column e0"));
}

TEST_CASE("trace_files: a .jsonl trace takes the routes of one layer in the file's order") {
  const std::string text =
      "{\"type\":\"meta\",\"top_k\":2}\n"
      "{\"type\":\"route\",\"token_idx\":5,\"layer\":3,\"topk_ids\":[1,2],"
      "\"topk_weights\":[0.5,1e-3]}\n\n"
      "{\"type\":\"route\",\"token_idx\":0,\"layer\":4,\"topk_ids\":[9,9,9]}\r\n"
      "{\"type\":\"route\",\"token_idx\":0,\"layer\":3,\"topk_ids\":[-1,7],\"topk_weights\":[2,3],"
      "\"req_id\":\"r1\"}";
  const Trace trace = parse_trace_jsonl(text, "t.jsonl", kLimits);
  CHECK(trace.rows == 2);
  CHECK(trace.topk_idx == std::vector<int32_t>{1, 2, -1, 7});
  CHECK(trace.topk_weights == std::vector<float>{0.5f, 1e-3f, 2, 3});
  check_hostile(text.substr(26),
                [](std::string_view changed) { parse_trace_jsonl(changed, "t.jsonl", kLimits); });
}

TEST_CASE("trace_files: a .jsonl line that does not fit is refused with its number") {
  const auto route = [](const std::string& fields) {
    return "\n{\"type\":\"route\",\"layer\":3," + fields + "}\n";
  };
  CHECK(jsonl_refusal("") == "t.jsonl: has no line of type \"route\" and layer 3");
  CHECK(contains(jsonl_refusal("{\"layer\":3}"), "t.jsonl line 1: type is missing"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2]") + "oops"), "t.jsonl line 3"));
  CHECK(contains(jsonl_refusal("[1]"), "t.jsonl line 1"));
  CHECK(contains(jsonl_refusal("{\"type\":\"route\",\"topk_ids\":[1,2]}"), "layer"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1]")),
                 "t.jsonl line 2.topk_ids: 1 expert ids a token; shape.topk is 2"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,8]")), "t.jsonl line 2.topk_ids[1]: 8"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1.0,2]")), "line 2.topk_ids[0]: 1.0"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2],\"topk_ids\":[3,4]")), "line 2"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2],\"topk_weights\":[1]")), "topk_weights"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2],\"topk_weights\":[1,1e39]")),
                 "topk_weights[1]"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2],\"topk_weights\":[1,null]")),
                 "topk_weights[1]"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2],\"topk_weights\":[1,2]") +
                               route("\"topk_ids\":[1,2]")),
                 "t.jsonl line 4: topk_weights must be on every line or on none"));
  CHECK(contains(jsonl_refusal(route("\"topk_ids\":[1,2]") +
                               route("\"topk_ids\":[1,2],\"topk_weights\":[1,2]")),
                 "every line or on none"));
  CHECK(contains(jsonl_refusal(std::string(kMaxTraceLine + 1, '[')), "t.jsonl line 1: 1048577"));
  CHECK(contains(jsonl_refusal(std::string(100000, '[')), "nested deeper"));
}

TEST_CASE("trace_files: an .npy trace is read in every integer type and both orders") {
  const std::vector<int32_t> expected = {0, 7, 3, 1, 5, 2};
  const auto ids = [](const std::string& file) {
    return parse_trace_npy(bytes_of(file), "t.npy", kLimits).topk_idx;
  };
  const std::string shape = "(3, 2)";
  CHECK(ids(npy_file(npy_header("|i1", shape), raw<int8_t>({0, 7, 3, 1, 5, 2}))) == expected);
  CHECK(ids(npy_file(npy_header("|u1", shape), raw<uint8_t>({0, 7, 3, 1, 5, 2}))) == expected);
  CHECK(ids(npy_file(npy_header("<i2", shape), raw<int16_t>({0, 7, 3, 1, 5, 2}))) == expected);
  CHECK(ids(npy_file(npy_header("<u4", shape), raw<uint32_t>({0, 7, 3, 1, 5, 2}), 2)) == expected);
  CHECK(ids(npy_file(npy_header("<i8", shape), raw<int64_t>({0, 7, 3, 1, 5, 2}), 3)) == expected);
  CHECK(ids(npy_file(npy_header("<i8", shape, "True"), raw<int64_t>({0, 3, 5, 7, 1, 2}))) ==
        expected);
  CHECK(ids(npy_file("{'shape':(1,2),\"fortran_order\":False,'descr':'<i2'}",
                     raw<int16_t>({-1, 4}))) == std::vector<int32_t>{-1, 4});
  CHECK(ids(npy_file(npy_header("<i4", "(0, 2)"), "")).empty());
}

TEST_CASE("trace_files: an .npy file that does not fit is refused") {
  const std::string six = raw<int64_t>({0, 7, 3, 1, 5, 2});
  CHECK(npy_refusal("PK") == "t.npy: is not an npy file");
  CHECK(npy_refusal(npy_file(npy_header("<i8", "(3, 2)"), six, 4)) ==
        "t.npy: npy version 4 is not 1 to 3");
  CHECK(npy_refusal(npy_file(npy_header("<i8", "(3, 2)"), six + "x")) ==
        "t.npy: holds 49 bytes of data; its npy header asks for 48");
  CHECK(contains(npy_refusal(npy_file(npy_header("<i8", "(2, 3)"), six)),
                 "3 expert ids a token; shape.topk is 2"));
  CHECK(contains(npy_refusal(npy_file(npy_header("<i8", "(6,)"), six)),
                 "shape [6] is not [tokens, topk]"));
  CHECK(contains(npy_refusal(npy_file(npy_header("<f8", "(3, 2)"), six)),
                 "dtype '<f8', which is not a little-endian integer"));
  CHECK(contains(npy_refusal(npy_file(npy_header(">i8", "(3, 2)"), six)), "'>i8'"));
  CHECK(contains(npy_refusal(npy_file(npy_header("|O", "(3, 2)"), six)), "'|O'"));
  CHECK(contains(npy_refusal(npy_file(npy_header("<i8", "(4611686018427387904, 4, 2)"), six)),
                 "more elements than 64 bits count"));
  CHECK(npy_refusal(npy_file(npy_header("<i8", "(9223372036854775808, 0)"), "")) != "accepted");
  CHECK(
      contains(npy_refusal(npy_file(npy_header("<i8", "(3, 2)"), raw<int64_t>({0, 7, 3, 1, 8, 2}))),
               "t.npy[2][0]: 8 is not -1 to 7"));
  CHECK(contains(npy_refusal(npy_file(npy_header("<u8", "(1, 2)"), raw<uint64_t>({0, ~0ull}))),
                 "t.npy[0][1]: "));
  CHECK(contains(npy_refusal(npy_file("{'descr': '<i8', 'shape': (3, 2)}", six)), "lacks"));
  CHECK(contains(npy_refusal(npy_file(npy_header("<i8", "(3, 2)") + "{", six)), "goes on"));
  const std::string file = npy_file(npy_header("<i2", "(2, 2)"), raw<int16_t>({0, 7, 3, 1}));
  check_hostile(
      file, [](std::string_view changed) { parse_trace_npy(bytes_of(changed), "t.npy", kLimits); });
}

TEST_CASE("trace_files: no change of a CSV does more than get it refused") {
  check_hostile("row,e0,\"e1\",w0,w1\r\n0,1,7,0.5,\"2\"\r\n1,-1,3,1,-4e2\n",
                [](std::string_view changed) { parse_trace_csv(changed, "t.csv", kLimits); });
}

TEST_CASE("trace_files: a .safetensors trace holds I64 or I32 ids and perhaps weights") {
  const std::vector<int64_t> ids = {0, 1, -1, 7};
  const std::vector<float> weights = {1, 2, 3, 4};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), {tensor_source("topk.weights", Dtype::F32, {2, 2}, weights),
                                  tensor_source("topk.idx", Dtype::I64, {2, 2}, ids)});
  Trace trace = read_trace(file.path(), kLimits);
  CHECK(trace.rows == 2);
  CHECK(trace.topk_idx == std::vector<int32_t>{0, 1, -1, 7});
  CHECK(trace.topk_weights == weights);

  const auto refused = [&](const std::vector<TensorSource>& tensors) {
    write_safetensors(file.path(), tensors);
    return refusal([&] { read_trace(file.path(), kLimits); });
  };
  CHECK(refused({tensor_source("topk.idx", Dtype::I64, {2, 2}, ids)}) == "accepted");
  CHECK(contains(refused({tensor_source("idx", Dtype::I64, {2, 2}, ids)}), "topk.idx"));
  CHECK(contains(refused({tensor_source("topk.idx", Dtype::I64, {4}, ids)}), "[tokens, topk]"));
  CHECK(contains(refused({tensor_source("topk.idx", Dtype::I64, {1, 4}, ids)}), "shape.topk is 2"));
  CHECK(contains(refused({tensor_source("topk.idx", Dtype::F32, {2, 2}, weights)}),
                 "dtype F32 is not I64 or I32"));
  CHECK(contains(refused({tensor_source("topk.idx", Dtype::I64, {2, 2}, ids),
                          tensor_source("topk.weights", Dtype::F32, {4}, weights)}),
                 "F32 [4] is not F32 [2, 2]"));
  const std::vector<int64_t> far = {0, 1, int64_t{1} << 32, 7};
  CHECK(contains(refused({tensor_source("topk.idx", Dtype::I64, {2, 2}, far)}),
                 "topk.idx[1][0]: 4294967296 is not -1 to 7"));
}

TEST_CASE("trace_files: a path is refused for its extension or for not being a file") {
  const auto refused = [](const std::string& path) {
    return refusal([&] { read_trace(path, kLimits); });
  };
  CHECK(contains(refused("trace.parquet"), "routing.path: trace.parquet does not end in .csv"));
  CHECK(contains(refused(".csv"), "does not end in"));
  CHECK(contains(refused("/nonexistent/t.csv"),
                 "routing.path: /nonexistent/t.csv: cannot be opened"));
  const std::string folder = (std::filesystem::temp_directory_path() /
                              ("moetwin_folder_" + std::to_string(getpid()) + ".csv"))
                                 .string();
  std::filesystem::create_directory(folder);
  CHECK(contains(refused(folder), "is not a regular file"));
  std::filesystem::remove(folder);
  CHECK(contains(refused("a\nb.csv"), "a?b.csv: cannot be opened"));
}

TEST_CASE("trace_files: counts are those of one model, domain and layer") {
  const std::string text =
      "model,domain,layer,num_experts,expert,count\n"
      "a,x,0,2,0,5\na,x,0,2,1,6\na,y,0,2,0,7\na,y,0,2,1,8\na,x,1,2,1,0\na,x,1,2,0,1\n"
      "b,x,0,1,0,9\nb,x,2,1,0,0\n";
  const auto counts = [&](const CountsSelection& selection, uint32_t experts) {
    return parse_expert_counts(text, "c.csv", selection, experts);
  };
  CHECK(counts({"a", "x", 0}, 2) == std::vector<uint64_t>{5, 6});
  CHECK(counts({"a", "y", 0}, 2) == std::vector<uint64_t>{7, 8});
  CHECK(counts({"a", "x", 1}, 2) == std::vector<uint64_t>{1, 0});
  const auto refused = [&](const CountsSelection& selection, uint32_t experts) {
    return refusal([&] { counts(selection, experts); });
  };
  CHECK(refused({"a", "x", 0}, 4) ==
        "c.csv: 2 rows of model \"a\", domain \"x\", layer 0; shape.experts is 4");
  CHECK(refused({"a", "z", 0}, 2) ==
        "c.csv: 0 rows of model \"a\", domain \"z\", layer 0; shape.experts is 2");
  CHECK(contains(refused({"a", "x", 0}, 1), "c.csv row 2 column expert: 1 is not below"));
  CHECK(contains(refused({"b", "x", 2}, 1), "are all 0"));

  const auto text_refused = [](const std::string& rows) {
    return refusal([&] {
      parse_expert_counts("model,domain,layer,expert,count\n" + rows, "c.csv", {"a", "x", 0}, 2);
    });
  };
  CHECK(contains(text_refused("a,x,0,0,1\na,x,0,0,1\n"), "given twice"));
  CHECK(contains(text_refused("a,x,0,0,-1\n"), "c.csv row 1 column count: \"-1\""));
  CHECK(contains(text_refused("a,x,0,0,1.5\n"), "column count"));
  CHECK(contains(text_refused("a,x,0,0,1099511627777\n"), "0 to 1099511627776"));
  CHECK(contains(text_refused("a,x,q,0,1\n"), "column layer"));
  CHECK(contains(refusal([] {
                   parse_expert_counts("a,b\n", "c.csv", {"a", "x", 0}, 2);
                 }),
                 "lacks column model"));
}

}  // namespace moetwin
