#include "model/memory_estimate.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/ring_pool.h"

namespace moetwin {
namespace {

constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kTooMuch : product;
}

uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kTooMuch : sum;
}

// What decides the need of one launch.
struct Sizes {
  Shape shape;
  KernelOptions kernel;
  uint64_t tokens;  // over all ranks
};

uint64_t input_bytes(const Sizes& s) {
  const uint64_t scales = s.shape.hidden_blocks() * sizeof(float);
  const uint64_t routing = s.shape.topk * (sizeof(int32_t) + sizeof(float));
  return times(s.tokens, s.shape.hidden + scales + routing);
}

uint64_t expert_bytes(const Shape& shape) {
  const uint64_t codes = uint64_t{3} * shape.hidden * shape.intermediate;
  const uint64_t blocks = uint64_t{shape.hidden_blocks()} * shape.intermediate_blocks();
  return codes + 3 * sizeof(float) * blocks;
}

uint64_t weight_bytes(const Sizes& s) {
  const uint64_t at_work = times(s.shape.ranks, live_experts(s.shape, s.kernel));
  const uint64_t live = std::min(at_work, times(s.tokens, s.shape.topk));
  return times(live, expert_bytes(s.shape));
}

uint64_t result_bytes(const Sizes& s) {
  const uint64_t rows = times(s.tokens, s.shape.topk);
  const uint64_t lists = uint64_t{s.shape.experts} * s.shape.ranks * sizeof(std::vector<uint32_t>);
  const uint64_t linear1 = s.shape.intermediate + s.shape.linear1_scale_groups() * sizeof(float);
  const uint64_t linear2 = s.shape.hidden * sizeof(uint16_t);
  const uint64_t row = sizeof(uint32_t) + sizeof(RoutedRow) + linear1 + linear2;
  const uint64_t y = times(s.tokens, s.shape.hidden * sizeof(uint16_t));
  return plus(plus(y, lists), times(rows, row));
}

uint64_t need_of(const Sizes& s) {
  return plus(plus(input_bytes(s), weight_bytes(s)), result_bytes(s));
}

MemoryNeed estimate_launch(const Case& c, const LaunchSpec& launch) {
  Sizes sizes{launch.shape, c.kernel, 0};
  for (const uint32_t count : launch.tokens) sizes.tokens += count;
  MemoryNeed need{need_of(sizes), "", 0};
  uint64_t least = kTooMuch;
  const auto offer = [&](const char* field, uint64_t value, const Sizes& smaller) {
    const uint64_t without = need_of(smaller);
    if (without >= least) return;
    least = without;
    need.driver = field;
    need.driver_value = value;
  };
  const auto offer_smallest = [&](const char* field, uint32_t Shape::*member, uint32_t smallest) {
    Sizes smaller = sizes;
    smaller.shape.*member = smallest;
    offer(field, sizes.shape.*member, smaller);
  };
  // Fields of the kernel are not offered: one expert a rank saves all that fewer SMs could.
  offer("tokens", sizes.tokens, {sizes.shape, sizes.kernel, std::min<uint64_t>(sizes.tokens, 1)});
  offer_smallest("shape.hidden", &Shape::hidden, kScaleBlock);
  offer_smallest("shape.intermediate", &Shape::intermediate, kScaleBlock);
  offer_smallest("shape.topk", &Shape::topk, 1);
  offer_smallest("shape.experts", &Shape::experts, sizes.shape.ranks);
  return need;
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GiB", static_cast<double>(bytes) / (1ull << 30));
  return text;
}

}  // namespace

uint64_t live_experts(const Shape& shape, const KernelOptions& kernel) {
  uint64_t ahead = linear1_warm_up(shape, kernel.block_n, kernel.sms_per_rank);
  if (kernel.scheduler == SchedulerPolicy::Wave) {
    const bool all = kernel.experts_per_wave == 0;
    ahead = all ? shape.num_local_experts() : kernel.experts_per_wave;
  }
  return std::min<uint64_t>(ahead + kernel.sms_per_rank, shape.num_local_experts());
}

MemoryNeed estimate_memory(const Case& c) {
  MemoryNeed most;
  for (const LaunchSpec& launch : c.launches) {
    const MemoryNeed need = estimate_launch(c, launch);
    if (need.bytes > most.bytes) most = need;
  }
  return most;
}

void refuse_over_limit(const MemoryNeed& need, uint64_t limit_bytes) {
  if (need.bytes <= limit_bytes) return;
  throw InputError(std::string(need.driver) + ": " + std::to_string(need.driver_value) +
                   " makes the case need " + gibibytes(need.bytes) +
                   " of memory; --max-memory allows " + gibibytes(limit_bytes));
}

void check_memory(const Case& c, uint64_t limit_bytes) {
  refuse_over_limit(estimate_memory(c), limit_bytes);
}

uint64_t default_memory_limit() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024 / 5 * 4;
    std::getline(file, unit);
  }
  return kTooMuch;
}

}  // namespace moetwin
