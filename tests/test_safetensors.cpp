#include <doctest/doctest.h>

#include <cstring>

#include "model/tensor_files.h"
#include "tests/input_checks.h"

namespace moetwin {
namespace {
using namespace test;

/// What hostile bytes are made of.
constexpr std::string_view kChanges("\0\1\t\n\",9-{[]\x7F\x80\xFF", 14);

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string file_text(const std::string& header, std::string_view data, uint64_t length) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data);
}

std::string file_text(const std::string& header, std::string_view data) {
  return file_text(header, data, header.size());
}

std::string refused(const std::string& text) {
  return refusal([&] { parse_safetensors(bytes_of(text), "t.safetensors"); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("safetensors: what is written is read back, each tensor aligned to its element") {
  const std::vector<uint8_t> codes = {1, 2, 3, 4, 5};
  const std::vector<uint8_t> raw = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> halves = {0x3F80, 0x7FFF, 7};
  const std::vector<float> scales = {1.5f, -0.0f};
  const std::vector<int32_t> rows = {-1, 2147483647};
  const std::vector<int64_t> ids = {int64_t{-1} << 63};
  const std::vector<float> nothing;
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), {tensor_source("x.codes", Dtype::F8E4m3, {5}, codes),
                                  tensor_source("raw", Dtype::U8, {1, 6}, raw),
                                  tensor_source("y", Dtype::Bf16, {3, 1}, halves),
                                  tensor_source("x.scales", Dtype::F32, {2}, scales),
                                  tensor_source("rows", Dtype::I32, {1, 2}, rows),
                                  tensor_source("empty", Dtype::F32, {0, 4}, nothing),
                                  tensor_source("ids", Dtype::I64, {}, ids)});
  const TensorFiles read(file.path());
  CHECK(read.tensors().size() == 7);
  const auto same = [&](const char* name, Dtype dtype, const std::vector<uint64_t>& shape,
                        const void* values, size_t bytes) {
    const TensorView& tensor = read.tensor(name);
    CAPTURE(name);
    CHECK(tensor.dtype == dtype);
    CHECK(tensor.dtype_text == dtype_name(dtype));
    CHECK(tensor.shape == shape);
    REQUIRE(tensor.bytes.size() == bytes);
    if (bytes == 0) return;
    CHECK(std::memcmp(tensor.bytes.data(), values, bytes) == 0);
    CHECK(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % dtype_bytes(dtype) == 0);
  };
  same("x.codes", Dtype::F8E4m3, {5}, codes.data(), 5);
  same("raw", Dtype::U8, {1, 6}, raw.data(), 6);
  same("y", Dtype::Bf16, {3, 1}, halves.data(), 6);
  same("x.scales", Dtype::F32, {2}, scales.data(), 8);
  same("rows", Dtype::I32, {1, 2}, rows.data(), 8);
  same("ids", Dtype::I64, {}, ids.data(), 8);
  same("empty", Dtype::F32, {0, 4}, nullptr, 0);
}

TEST_CASE("safetensors: a tensor may be made in pieces, and a failed write leaves no file") {
  const TemporaryFile file(".safetensors", "old");
  const std::vector<uint8_t> piece = {1, 2};
  TensorSource source{"x", Dtype::U8, {3, 2}, [&piece](const ByteSink& sink) {
                        for (int i = 0; i < 3; ++i) sink(piece);
                      }};
  write_safetensors(file.path(), {source});
  CHECK(TensorFiles(file.path()).tensor("x").bytes.size() == 6);
  const std::string good = read_all(file.path());

  source.shape = {4, 2};
  CHECK_THROWS_AS(write_safetensors(file.path(), {source}), InternalError);
  CHECK(read_all(file.path()) == good);
  CHECK_FALSE(std::filesystem::exists(file.path() + ".part"));
  CHECK(contains(refusal([&] { write_safetensors("/nonexistent/o.safetensors", {source}); }),
                 "/nonexistent/o.safetensors: cannot be written"));
}

TEST_CASE("safetensors: a tensor that is absent or of another type or shape is refused") {
  const std::vector<float> values = {1, 2};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), {tensor_source("a", Dtype::F32, {2}, values)});
  const TensorFiles read(file.path());
  CHECK(read.has("a"));
  CHECK_FALSE(read.has("b"));
  const Dtype codes[] = {Dtype::F8E4m3, Dtype::U8};
  const Dtype floats[] = {Dtype::F32};
  CHECK(contains(refusal([&] { read.tensor("b"); }), "has no tensor \"b\""));
  CHECK(contains(refusal([&] { read.tensor("a", codes, {2}); }),
                 "tensor \"a\": dtype F32 is not F8_E4M3 or U8"));
  CHECK(contains(refusal([&] {
                   read.tensor("a", floats, {2, 1});
                 }),
                 "tensor \"a\": shape [2] is not [2, 1]"));
  CHECK(read.tensor("a", floats, {2}).bytes.size() == 8);
}

TEST_CASE("safetensors: other types and metadata may be in a file") {
  const std::string text =
      file_text("{\"__metadata__\":{\"format\":\"pt\"}," + entry("half", "F16", "[2]", "[0,4]") +
                    "," + entry("codes", "U8", "[1]", "[4,5]") + "}   ",
                "abcdX");
  const TensorMap tensors = parse_safetensors(bytes_of(text), "t.safetensors");
  CHECK(tensors.size() == 2);
  CHECK(tensors.at("half").dtype == Dtype::Other);
  CHECK(tensors.at("half").dtype_text == "F16");
  CHECK(tensors.at("codes").bytes[0] == 'X');
}

TEST_CASE("safetensors: a header's length is checked before anything is read") {
  CHECK(refused("") == "t.safetensors: 0 bytes are too few for a safetensors file");
  CHECK(refused("1234567") == "t.safetensors: 7 bytes are too few for a safetensors file");
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 31, uint64_t{1} << 63, ~uint64_t{0},
                                ~uint64_t{0} - 7, uint64_t{0} - 6}) {
    CAPTURE(length);
    CHECK(contains(refused(file_text("{}", "", length)),
                   "header length " + std::to_string(length) + " is above 2"));
  }
  const std::string long_header = "{}" + std::string(kMaxSafetensorsHeader, ' ');
  CHECK(contains(refused(file_text(long_header, "")), "is above 8388608"));
  CHECK(refused(file_text("{}", "")) == "accepted");
  CHECK(contains(refused(file_text("", "")), "t.safetensors"));
  CHECK(contains(refused(file_text("[]", "")), "not a JSON object"));
  CHECK(contains(refused(file_text("{} {}", "")), "t.safetensors"));
  CHECK(contains(refused(file_text(std::string(1000, '['), "")), "nested deeper"));
}

TEST_CASE("safetensors: ranges that overlap, leave gaps or leave the file are refused") {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return refused(file_text("{" + entry("a", dtype, shape, offsets) + "}", "12345678"));
  };
  CHECK(one("U8", "[8]", "[0,8]") == "accepted");
  CHECK(contains(one("U8", "[9]", "[0,9]"), "tensor \"a\".data_offsets[1]: 9"));
  CHECK(contains(one("U8", "[7]", "[0,7]"), "8 bytes of data, but its tensors end at byte 7"));
  CHECK(contains(one("U8", "[7]", "[1,8]"), "begins at byte 1 and leaves a gap after byte 0"));
  CHECK(contains(one("U8", "[0]", "[5,4]"), "5 is after 4"));
  CHECK(contains(one("U8", "[7]", "[0,8]"), "8 bytes; U8 of shape [7] takes 7"));
  CHECK(contains(one("F32", "[8]", "[0,8]"), "8 bytes; F32 of shape [8] takes 32"));
  CHECK(contains(one("U8", "[8]", "[-1,7]"), "data_offsets[0]: -1"));
  CHECK(contains(one("U8", "[8]", "[0.0,8]"), "data_offsets[0]: 0.0"));
  CHECK(contains(one("U8", "[8]", "[0,18446744073709551615]"), "data_offsets[1]"));
  CHECK(contains(one("U8", "[8]", "[0,8,8]"), "not an array of two"));
  CHECK(contains(one("U8", "[-8]", "[0,8]"), "shape[0]: -8"));
  CHECK(contains(one("U8", "[8.0]", "[0,8]"), "shape[0]: 8.0"));
  CHECK(contains(one("U8", "8", "[0,8]"), "shape is missing or not an array"));
  CHECK(contains(one("I64", "[2305843009213693953]", "[0,8]"), "more elements"));
  CHECK(contains(one("U8", "[4294967296,4294967296,0]", "[0,0]"), "more elements"));

  const auto two = [](const std::string& first, const std::string& second) {
    return refused(file_text(
        "{" + entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second) + "}",
        "12345678"));
  };
  CHECK(two("[4,8]", "[0,4]") == "accepted");
  CHECK(contains(two("[0,4]", "[3,7]"),
                 "tensor \"b\": begins at byte 3 inside another that ends at 4"));
  CHECK(contains(two("[0,4]", "[0,4]"), "begins at byte 0 inside another"));
  CHECK(contains(refused(file_text("{" + entry("a", "U8", "[4]", "[0,4]") + "," +
                                       entry("a", "U8", "[4]", "[4,8]") + "}",
                                   "12345678")),
                 "t.safetensors: a: given twice"));
}

TEST_CASE("safetensors: an entry with a missing, unknown or wrong field is refused") {
  for (const char* value : {"1", "null", "[]", "{}", "{\"dtype\":\"U8\",\"shape\":[8]}",
                            "{\"dtype\":8,\"shape\":[8],\"data_offsets\":[0,8]}",
                            "{\"dtype\":\"U8\",\"data_offsets\":[0,8]}",
                            "{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"more\":1}",
                            "{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":{}}"}) {
    CAPTURE(value);
    CHECK(contains(refused(file_text("{\"a\":" + std::string(value) + "}", "12345678")),
                   "t.safetensors: tensor \"a\""));
  }
}

TEST_CASE("safetensors: every prefix and every changed byte is accepted or refused") {
  const std::string text = file_text(
      "{" + entry("a", "F32", "[1,2]", "[0,8]") + "," + entry("b", "U8", "[3]", "[8,11]") + "}",
      "12345678abc");
  REQUIRE(refused(text) == "accepted");
  for (size_t length = 0; length < text.size(); ++length) {
    CHECK(refused(text.substr(0, length)) != "accepted");
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char value : kChanges) {
      std::string changed = text;
      changed[at] = value;
      CHECK_NOTHROW(refused(changed));
    }
  }
}

}  // namespace moetwin
