#include "model/memory_estimate.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "common/check.h"

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

// What decides the need of one launch; a member a field that can drive it.
struct Sizes {
  uint64_t ranks;
  uint64_t experts;
  uint64_t topk;
  uint64_t hidden;
  uint64_t intermediate;
  uint64_t tokens;  // over all ranks
  uint64_t sms_per_rank;
};

uint64_t input_bytes(const Sizes& s) {
  const uint64_t scales = times(s.hidden / kScaleBlock, sizeof(float));
  const uint64_t routing = times(s.topk, sizeof(int32_t) + sizeof(float));
  return times(s.tokens, plus(plus(s.hidden, scales), routing));
}

uint64_t expert_bytes(const Sizes& s) {
  const uint64_t codes = times(3, times(s.hidden, s.intermediate));
  const uint64_t blocks = times(s.hidden / kScaleBlock, s.intermediate / kScaleBlock);
  return plus(codes, times(3 * sizeof(float), blocks));
}

uint64_t weight_bytes(const Sizes& s) {
  const uint64_t at_work = times(kLiveExpertsPerSm, times(s.ranks, s.sms_per_rank));
  const uint64_t live = std::min({at_work, s.experts, times(s.tokens, s.topk)});
  return times(live, expert_bytes(s));
}

uint64_t result_bytes(const Sizes& s) {
  const uint64_t rows = times(s.tokens, s.topk);
  const uint64_t lists = times(times(s.experts, s.ranks), sizeof(std::vector<uint32_t>));
  const uint64_t scales = times(s.intermediate / kLinear1ScaleGroup, sizeof(float));
  const uint64_t stages = plus(plus(s.intermediate, scales), times(s.hidden, sizeof(uint16_t)));
  const uint64_t row = plus(sizeof(uint32_t) + sizeof(RoutedRow), stages);
  const uint64_t y = times(s.tokens, times(s.hidden, sizeof(uint16_t)));
  return plus(plus(y, lists), times(rows, row));
}

uint64_t need_of(const Sizes& s) {
  return plus(plus(input_bytes(s), weight_bytes(s)), result_bytes(s));
}

struct Field {
  const char* name;
  uint64_t Sizes::*member;
  uint64_t smallest;
};

MemoryNeed estimate_launch(const Case& c, const LaunchSpec& launch) {
  Sizes sizes{launch.shape.ranks,   launch.shape.experts,      launch.shape.topk,
              launch.shape.hidden,  launch.shape.intermediate, 0,
              c.kernel.sms_per_rank};
  for (const uint32_t count : launch.tokens) sizes.tokens += count;
  const Field fields[] = {
      {"tokens", &Sizes::tokens, 1},
      {"shape.hidden", &Sizes::hidden, kScaleBlock},
      {"shape.intermediate", &Sizes::intermediate, kScaleBlock},
      {"shape.topk", &Sizes::topk, 1},
      {"shape.experts", &Sizes::experts, sizes.ranks},
      {"kernel.sms_per_rank", &Sizes::sms_per_rank, 1},
  };
  MemoryNeed need{need_of(sizes), "", 0};
  uint64_t least = kTooMuch;
  for (const Field& field : fields) {
    Sizes smaller = sizes;
    smaller.*field.member = std::min(field.smallest, sizes.*field.member);
    const uint64_t without = need_of(smaller);
    if (without >= least) continue;
    least = without;
    need.driver = field.name;
    need.driver_value = sizes.*field.member;
  }
  return need;
}

std::string gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GiB", static_cast<double>(bytes) / (1ull << 30));
  return text;
}

}  // namespace

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
