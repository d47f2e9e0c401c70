#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "model/memory_estimate.h"
#include "model/presets.h"
#include "tests/case_fields.h"

namespace moetwin {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Case preset(const std::string& name, const std::vector<std::string>& settings = {}) {
  return parse_case(apply_settings(preset_json(name), settings), "");
}

TEST_CASE("memory_estimate: a small case needs what its arrays add up to") {
  const Case c = preset("tiny", {"tokens=[8,4]"});
  const uint64_t tokens = 12;
  const uint64_t rows = tokens * 2;
  const uint64_t inputs = tokens * (128 + 4 + 2 * 4 + 2 * 4);
  const uint64_t expert = 2 * 128 * 128 + 128 * 128 + 2 * 4 + 4;
  const uint64_t result = tokens * 128 * 2 + 4 * 2 * sizeof(std::vector<uint32_t>) + rows * 4 +
                          rows * sizeof(RoutedRow) + rows * (128 + 2 * 4) + rows * 128 * 2;
  CHECK(estimate_memory(c).bytes == inputs + 4 * expert + result);
}

TEST_CASE("memory_estimate: weights count by what may be alive at once, not by all experts") {
  const uint64_t expert = 3ull * 7168 * 3072;
  const auto experts = [&](const std::vector<std::string>& settings) {
    return estimate_memory(preset("v4_pro", settings)).bytes / expert;
  };
  // Two blocks of warm-up and four SMs on each of eight ranks.
  CHECK(experts({}) == 48);
  CHECK(experts({"kernel.sms_per_rank=1"}) == 24);
  CHECK(experts({"kernel.scheduler=wave"}) == 384);
  CHECK(experts({"kernel.scheduler=wave", "kernel.experts_per_wave=5"}) == 72);
  CHECK(experts({"tokens=[1,0,0,0,0,0,0,0]"}) == 6);
  CHECK(experts({"tokens=[0,0,0,0,0,0,0,0]"}) == 0);
}

TEST_CASE("memory_estimate: live experts never exceed those a rank has") {
  for (const uint32_t experts : {8u, 64u, 4096u}) {
    const Shape shape{8, experts, 2, 128, 128, 8};
    for (uint32_t sms = 1; sms <= kMaxSmsPerRank; sms += 5) {
      for (const SchedulerPolicy policy : {SchedulerPolicy::Ring, SchedulerPolicy::Wave}) {
        KernelOptions kernel;
        kernel.sms_per_rank = sms;
        kernel.scheduler = policy;
        const uint64_t live = live_experts(shape, kernel);
        CHECK(live >= 1);
        CHECK(live <= shape.num_local_experts());
        if (policy == SchedulerPolicy::Wave) CHECK(live == shape.num_local_experts());
      }
    }
  }
}

TEST_CASE("memory_estimate: the driver is the field that would save most at its smallest") {
  const auto driver = [](const std::vector<std::string>& settings) {
    return std::string(estimate_memory(preset("tiny", settings)).driver);
  };
  CHECK(driver({"shape.max_tokens_per_rank=1048576"}) == "tokens");
  CHECK(driver({"shape.hidden=16384", "tokens=[1,1]"}) == "shape.hidden");
  CHECK(driver({"shape.intermediate=32768"}) == "shape.intermediate");
  CHECK(driver({"shape.topk=32", "shape.experts=32", "tokens=[1,1]"}) == "shape.topk");
  CHECK(driver({"shape.experts=4096", "kernel.sms_per_rank=1", "tokens=[1,0]"}) == "shape.experts");
}

TEST_CASE("memory_estimate: the largest launch decides") {
  const Case one = preset("tiny");
  const Case two = preset("tiny", {R"(launches=[{},{"shape":{"hidden":4096}},{"tokens":[0,0]}])"});
  CHECK(estimate_memory(two).bytes == estimate_memory(preset("tiny", {"shape.hidden=4096"})).bytes);
  CHECK(estimate_memory(two).bytes > estimate_memory(one).bytes);
  CHECK(estimate_memory(two).driver_value == 4096);
}

TEST_CASE("memory_estimate: the largest legal case is refused without being allocated") {
  const Case c = preset("tiny", {"shape.ranks=128", "shape.experts=4096", "shape.topk=32",
                                 "shape.hidden=16384", "shape.intermediate=32768",
                                 "shape.max_tokens_per_rank=1048576", "kernel.sms_per_rank=256"});
  const MemoryNeed need = estimate_memory(c);
  CHECK(need.bytes > 250000 * kGiB);
  CHECK(need.bytes < 1000000 * kGiB);
  CHECK(std::string(need.driver) == "tokens");
  CHECK(need.driver_value == 128ull * 1048576);
  std::string message;
  try {
    check_memory(c, 8 * kGiB);
  } catch (const InputError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(test::names_field(message, "tokens"));
  CHECK(message.find("134217728") != std::string::npos);
  CHECK(message.find("8.000 GiB") != std::string::npos);
}

TEST_CASE("memory_estimate: the limit is exact to the byte") {
  const Case c = preset("small");
  const uint64_t need = estimate_memory(c).bytes;
  CHECK_NOTHROW(check_memory(c, need));
  CHECK_THROWS_AS(check_memory(c, need - 1), InputError);
  CHECK_THROWS_AS(check_memory(c, 0), InputError);
}

TEST_CASE("memory_estimate: the default limit is some memory, but less than all") {
  const uint64_t limit = default_memory_limit();
  CHECK(limit > (uint64_t{1} << 20));
  CHECK((limit == UINT64_MAX || limit < (uint64_t{1} << 50)));
}

}  // namespace
}  // namespace moetwin
