#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/memory_estimate.h"
#include "model/presets.h"
#include "tests/case_fields.h"

namespace moetwin {
namespace {

std::string refusal_of(const std::vector<std::string>& settings) {
  try {
    apply_settings(preset_json("tiny"), settings);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Case set(const std::vector<std::string>& settings) {
  return parse_case(apply_settings(preset_json("tiny"), settings), "");
}

TEST_CASE("presets: each has the published sizes, uniform routing, normal data and a ring") {
  struct Wanted {
    const char* name;
    Shape shape;
  };
  const Wanted wanted[] = {
      {"tiny", {2, 4, 2, 128, 128, 8}},          {"small", {4, 32, 8, 1024, 512, 64}},
      {"mixtral", {8, 8, 2, 4096, 14336, 16}},   {"v3", {8, 256, 8, 7168, 2048, 16}},
      {"v4_flash", {8, 256, 6, 4096, 2048, 16}}, {"v4_pro", {8, 384, 6, 7168, 3072, 16}},
  };
  std::vector<std::string> names;
  for (const Wanted& preset : wanted) {
    names.emplace_back(preset.name);
    const Case c = parse_case(preset_json(preset.name), "");
    Case plain;
    plain.shape = preset.shape;
    plain.tokens.assign(preset.shape.ranks, preset.shape.max_tokens_per_rank);
    set_launches(plain, 1);
    CHECK(c == plain);
    CHECK(c.kernel.sms_per_rank == 4);
    CHECK(c.kernel.scheduler == SchedulerPolicy::Ring);
  }
  CHECK(preset_names() == names);
  CHECK_THROWS_WITH_AS(preset_json("huge"),
                       "preset: \"huge\" is not one of tiny, small, mixtral, v3, v4_flash, v4_pro",
                       InputError);
}

TEST_CASE("presets: a setting takes JSON, or a bare word as a string") {
  const Case c = set({"shape.topk=4", "routing={\"kind\":\"zipf\",\"alpha\":2}", "routing.seed=9",
                      "schedule=random:3", "data.kind=file", "data.path=/a b.safetensors",
                      "world.held_sms=[[0,1]]", "kernel.clamp=1e1", "tokens=[1,2]", "plant=\"7\"",
                      "launches=2", "data.nan=true"});
  CHECK(c.shape.topk == 4);
  CHECK(c.routing.kind == RoutingKind::Zipf);
  CHECK(c.routing.alpha == 2);
  CHECK(c.routing.seed == 9);
  CHECK(c.schedule == "random:3");
  CHECK(c.data.path == "/a b.safetensors");
  CHECK(c.data.nan);
  CHECK(c.world.held_sms == std::vector<HeldSm>{{0, 1}});
  CHECK(c.clamp == 10.0f);
  CHECK(c.tokens == std::vector<uint32_t>{1, 2});
  CHECK(c.plant == "7");
  CHECK(c.launches.size() == 2);
}

TEST_CASE("presets: the last of two settings of a field wins") {
  CHECK(set({"shape.topk=3", "shape.topk=1"}).shape.topk == 1);
  CHECK(set({"routing.alpha=3", "routing={}"}).routing == RoutingSpec{});
}

TEST_CASE("presets: every field of a case can be set, and holds what was set") {
  for (const test::CaseField& field : test::case_fields()) {
    if (field.good.empty()) continue;
    for (const std::string& value : field.good) {
      CAPTURE(field.path);
      CAPTURE(value);
      const Json document = test::patched(field.with);
      const std::string set_text =
          apply_settings(document.dump(), {field.path + "=" + value}, "/cases");
      CHECK(parse_case(set_text, "/cases") ==
            parse_case(test::with_value(document, field.path, value), "/cases"));
    }
  }
}

TEST_CASE("presets: a setting that makes no case is refused in one line that names the field") {
  using test::names_field;
  CHECK(names_field(refusal_of({"shape.foo=1"}), "shape.foo"));
  CHECK(names_field(refusal_of({"foo=1"}), "foo"));
  CHECK(names_field(refusal_of({"foo.bar=1"}), "foo"));
  CHECK(names_field(refusal_of({"shape.topk=99"}), "shape.topk"));
  CHECK(names_field(refusal_of({"shape.topk=two"}), "shape.topk"));
  CHECK(names_field(refusal_of({"shape.topk="}), "shape.topk"));
  CHECK(names_field(refusal_of({"shape.topk=1e999"}), "shape.topk"));
  CHECK(names_field(refusal_of({"shape.topk.x=1"}), "shape.topk.x"));
  CHECK(names_field(refusal_of({"tokens=[1,2"}), "tokens"));
  CHECK(names_field(refusal_of({"routing={\"kind\":\"zipf\",\"kind\":\"zipf\"}"}),
                    "routing.kind") == false);
  CHECK(refusal_of({"routing={\"kind\":\"zipf\",\"kind\":\"zipf\"}"}).find("given twice") !=
        std::string::npos);
  CHECK(names_field(refusal_of({"shape"}), "--set"));
  CHECK(names_field(refusal_of({"=1"}), "--set"));
  CHECK(names_field(refusal_of({"shape.=1"}), "--set"));
  CHECK(names_field(refusal_of({".topk=1"}), "--set"));
  CHECK(names_field(refusal_of({"a" + std::string(200, '.') + "=1"}), "--set"));
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) deep += ".a";
  CHECK(names_field(refusal_of({deep + "=1"}), "--set"));
  CHECK(refusal_of({"plant=\xff"}).find("UTF-8") != std::string::npos);
  CHECK_THROWS_AS(apply_settings("[]", {}), InputError);
  CHECK_THROWS_AS(apply_settings("{", {}), InputError);
}

}  // namespace
}  // namespace moetwin
