#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/case_reader.h"
#include "tests/case_fields.h"

namespace moetwin {
namespace {

using test::names_field;
using test::refusal;

constexpr const char* kShape =
    R"("shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":256,)"
    R"("max_tokens_per_rank":8})";

std::string with_shape(const std::string& rest) {
  return "{" + std::string(kShape) + (rest.empty() ? "" : ",") + rest + "}";
}

TEST_CASE("case: a shape alone is a case, all else has the documented default") {
  const Case c = parse_case(with_shape(""), "");
  CHECK(c.shape == Shape{2, 4, 2, 128, 256, 8});
  CHECK(c.tokens == std::vector<uint32_t>{8, 8});
  CHECK(c.routing == RoutingSpec{});
  CHECK(c.routing.kind == RoutingKind::Uniform);
  CHECK(c.routing.seed == 1);
  CHECK(c.routing.weights == RoutingWeights::Normalized);
  CHECK(c.data.kind == DataKind::Normal);
  CHECK(c.data.seed == 1);
  CHECK(c.kernel.block_m == 64);
  CHECK(c.kernel.sms_per_rank == 4);
  CHECK(c.kernel.stages == 4);
  CHECK(c.kernel.scheduler == SchedulerPolicy::Ring);
  CHECK(c.kernel.ring_blocks == 0);
  CHECK(std::isinf(c.clamp));
  CHECK(c.schedule == "fifo");
  CHECK(c.world == World{});
  CHECK(c.world.poison == 255);
  CHECK(c.world.landing == Landing::Late);
  CHECK(c.plant.empty());
  REQUIRE(c.launches.size() == 1);
  CHECK(c.launches[0] == LaunchSpec{c.shape, c.tokens, c.routing, c.data});
}

TEST_CASE("case: every enumerator is spelled as its name, in the enumerator's place") {
  const auto routing = [](const std::string& kind) {
    return parse_case(with_shape(R"("routing":{"path":"p","model":"m","domain":"d","layer":0,)"
                                 R"("topk_idx":[[[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1]],)"
                                 R"([[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1]]],"kind":")" +
                                 kind + R"("},"data":{"kind":"file","path":"x"})"),
                      "")
        .routing.kind;
  };
  CHECK(routing("uniform") == RoutingKind::Uniform);
  CHECK(routing("zipf") == RoutingKind::Zipf);
  CHECK(routing("hot_expert") == RoutingKind::HotExpert);
  CHECK(routing("hot_rank") == RoutingKind::HotRank);
  CHECK(routing("group_limited") == RoutingKind::GroupLimited);
  CHECK(routing("round_robin") == RoutingKind::RoundRobin);
  CHECK(routing("explicit") == RoutingKind::Explicit);
  CHECK(routing("trace") == RoutingKind::Trace);
  CHECK(routing("counts") == RoutingKind::Counts);
  CHECK(routing("file") == RoutingKind::File);

  const auto data = [](const std::string& kind) {
    return parse_case(with_shape(R"("data":{"path":"p","kind":")" + kind + "\"}"), "").data.kind;
  };
  CHECK(data("normal") == DataKind::Normal);
  CHECK(data("outlier") == DataKind::Outlier);
  CHECK(data("same_sign") == DataKind::SameSign);
  CHECK(data("heavy_tail") == DataKind::HeavyTail);
  CHECK(data("ties") == DataKind::Ties);
  CHECK(data("extreme") == DataKind::Extreme);
  CHECK(data("file") == DataKind::File);

  const Case c =
      parse_case(with_shape(R"("routing":{"weights":"raw"},"kernel":{"scheduler":"wave"},)"
                            R"("world":{"landing":"random","padding":"compute"})"),
                 "");
  CHECK(c.routing.weights == RoutingWeights::Raw);
  CHECK(c.kernel.scheduler == SchedulerPolicy::Wave);
  CHECK(c.world.landing == Landing::Random);
  CHECK(c.world.padding == Padding::Compute);
  CHECK(parse_case(with_shape(R"("world":{"landing":"early"})"), "").world.landing ==
        Landing::Early);
  CHECK(parse_case(with_shape(R"("routing":{"weights":"uniform"})"), "").routing.weights ==
        RoutingWeights::Uniform);
}

TEST_CASE("case: share defaults to 1 for hot_rank and to 0.9 for the rest, and survives writing") {
  const Case rank = parse_case(with_shape(R"("routing":{"kind":"hot_rank"})"), "");
  const Case expert = parse_case(with_shape(R"("routing":{"kind":"hot_expert"})"), "");
  CHECK(rank.routing.share == 1.0);
  CHECK(expert.routing.share == 0.9);
  const Case low = parse_case(with_shape(R"("routing":{"kind":"hot_rank","share":0.9})"), "");
  CHECK(low.routing.share == 0.9);
  for (const Case& c : {rank, expert, low}) CHECK(parse_case(case_to_json(c), "") == c);
}

TEST_CASE("case: refusals that involve two fields name one and the other's value") {
  const std::string experts =
      refusal(R"({"shape":{"ranks":3,"experts":4,"topk":2,"hidden":128,"intermediate":128,)"
              R"("max_tokens_per_rank":8}})");
  CHECK(experts == "shape.experts: 4 is not a multiple of shape.ranks");
  CHECK(refusal(with_shape(R"("tokens":[8,9])")) == "tokens[1]: 9 is not an integer from 0 to 8");
  CHECK(refusal(with_shape(R"("tokens":[8])")) == "tokens: 1 entries; shape.ranks asks for 2");
  CHECK(refusal(with_shape(
            R"("tokens":[1,0],"routing":{"kind":"explicit","topk_idx":[[[0,4]],[]]})")) ==
        "routing.topk_idx[0][0][1]: 4 is not an integer from -1 to 3");
  CHECK(refusal(with_shape(
            R"("tokens":[2,0],"routing":{"kind":"explicit","topk_idx":[[[0,3]],[]]})")) ==
        "routing.topk_idx[0]: 1 entries; tokens asks for 2");
  CHECK(refusal(
            with_shape(R"("tokens":[1,0],"routing":{"kind":"explicit","topk_idx":[[[0]],[]]})")) ==
        "routing.topk_idx[0][0]: 1 entries; shape.topk asks for 2");
  CHECK(refusal(with_shape(R"("kernel":{"sms_per_rank":2},"world":{"held_sms":[[0,1],[1,2]]})")) ==
        "world.held_sms[1][1]: 2 is not an integer from 0 to 1");
  CHECK(refusal(with_shape(R"("routing":{"groups":3})")) ==
        "routing.groups: 3 is not a divisor of shape.experts, 4");
  CHECK(refusal(with_shape(R"("routing":{"groups":2,"topk_groups":3})")) ==
        "routing.topk_groups: 3 is not an integer from 1 to 2");
}

TEST_CASE("case: explicit routing arrives slot for slot, weights with all their bits") {
  const Case c = parse_case(
      with_shape(
          R"("tokens":[2,1],"routing":{"kind":"explicit","topk_idx":[[[0,-1],[3,3]],[[2,1]]],)"
          R"("topk_weights":[[[0.1,7],[-0.0,1e-45]],[[3.4028234663852886e38,-1]]]})"),
      "");
  CHECK(c.routing.topk_idx[0][0] == std::vector<int64_t>{0, -1});
  CHECK(c.routing.topk_idx[0][1] == std::vector<int64_t>{3, 3});
  CHECK(c.routing.topk_idx[1][0] == std::vector<int64_t>{2, 1});
  CHECK(c.routing.topk_weights[0][0] == std::vector<double>{0.1, 7});
  CHECK(c.routing.topk_weights[1][0][0] == 3.4028234663852886e38);
  const Case again = parse_case(case_to_json(c), "");
  CHECK(again == c);
  CHECK(std::signbit(again.routing.topk_weights[0][1][0]));
  CHECK(again.routing.topk_weights[0][1][1] == 1e-45);
}

TEST_CASE("case: arrays of a routing kind that is not chosen need not fit the tokens") {
  CHECK(refusal(with_shape(R"("routing":{"kind":"zipf","topk_idx":[[[0,1]]]})")) == "");
  CHECK(names_field(refusal(with_shape(R"("routing":{"kind":"zipf","topk_idx":[[[0,1.0]]]})")),
                    "routing.topk_idx"));
}

TEST_CASE("case: paths are taken from the case file's directory and written relative to it") {
  const std::string text = with_shape(
      R"("routing":{"kind":"trace","path":"../t.csv"},"schedule":"replay:@runs/./a.txt",)"
      R"("data":{"kind":"file","path":"/data/x.safetensors"})");
  const Case c = parse_case(text, "/home/cases");
  CHECK(c.routing.path == "/home/t.csv");
  CHECK(c.schedule == "replay:@/home/cases/runs/a.txt");
  CHECK(c.data.path == "/data/x.safetensors");
  const std::string beside = case_to_json(c, "/home");
  CHECK(beside.find(R"("path":"t.csv")") != std::string::npos);
  CHECK(beside.find(R"("replay:@cases/runs/a.txt")") != std::string::npos);
  CHECK(beside.find(R"("path":"/data/x.safetensors")") != std::string::npos);
  CHECK(parse_case(beside, "/home") == c);
  const std::string elsewhere = case_to_json(c, "/var");
  CHECK(elsewhere.find(R"("path":"/home/t.csv")") != std::string::npos);
  CHECK(parse_case(elsewhere, "/var") == c);
  const Case here = parse_case(text, "");
  CHECK(parse_case(case_to_json(here), "") == here);
  CHECK(here.schedule == "replay:@" + (std::filesystem::current_path() / "runs/a.txt").string());
}

TEST_CASE("case: kind file takes routing from the data file, and that is not written twice") {
  const Case c = parse_case(
      with_shape(R"("routing":{"kind":"file"},"data":{"kind":"file","path":"x.safetensors"})"),
      "/d");
  CHECK(c.routing.path == "/d/x.safetensors");
  const std::string text = case_to_json(c, "/d");
  CHECK(text.find(R"("routing": {"kind":"file"})") != std::string::npos);
  CHECK(parse_case(text, "/d") == c);
}

TEST_CASE("case: a written case holds what is not default, one section a line") {
  const Case c = parse_case(with_shape(R"("tokens":[8,8],"kernel":{"clamp":0.1,"stages":4})"), "");
  CHECK(case_to_json(c) ==
        "{\n"
        "  \"format\": 1,\n"
        "  \"shape\": {\"ranks\":2,\"experts\":4,\"topk\":2,\"hidden\":128,\"intermediate\":256,"
        "\"max_tokens_per_rank\":8},\n"
        "  \"kernel\": {\"clamp\":0.1}\n"
        "}\n");
}

TEST_CASE("case: the clamp is rounded to 32 bits once, and every float survives writing") {
  Case c = parse_case(with_shape(R"("kernel":{"clamp":0.1})"), "");
  CHECK(c.clamp == 0.1f);
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 0x00012345) {
    float clamp = 0;
    static_assert(sizeof clamp == sizeof bits);
    std::memcpy(&clamp, &bits, sizeof clamp);
    c.clamp = clamp;
    REQUIRE(parse_case(case_to_json(c), "") == c);
  }
}

TEST_CASE("case: a saved file loads as the same case, from any directory") {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / "moetwin_test_case_save";
  std::filesystem::create_directories(directory / "sub");
  const Case c = parse_case(with_shape(R"("routing":{"kind":"trace","path":"sub/t.csv"})"),
                            directory.string());
  const std::string path = (directory / "sub" / "case.json").string();
  save_case(c, path);
  CHECK(load_case(path) == c);
  CHECK(load_case((directory / "sub/../sub/case.json").string()) == c);
  CHECK_THROWS_AS(save_case(c, (directory / "none" / "case.json").string()), InputError);
  std::filesystem::remove_all(directory);
}

TEST_CASE("case: a file that is not there, a directory and an empty file are one clear line") {
  const std::filesystem::path directory = std::filesystem::temp_directory_path();
  const auto message = [](const std::string& path) -> std::string {
    try {
      load_case(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string absent = message((directory / "moetwin_no_such\nfile.json").string());
  CHECK(absent.find("No such file") != std::string::npos);
  CHECK(absent.find('\n') == std::string::npos);
  CHECK(message(directory.string()).find("case: cannot read") == 0);
  const std::filesystem::path empty = directory / "moetwin_test_empty.json";
  std::ofstream(empty).flush();
  CHECK(message(empty.string()).find("case: parse error") == 0);
  std::filesystem::resize_file(empty, (size_t{256} << 20) + 1);
  CHECK(message(empty.string()).find("256 MiB") != std::string::npos);
  std::filesystem::remove(empty);
}

}  // namespace
}  // namespace moetwin
