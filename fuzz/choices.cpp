#include "fuzz/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "model/mapped_file.h"

namespace moetwin {
namespace {

constexpr std::string_view kSeedPrefix = "seed:";
constexpr std::string_view kDrawsPrefix = "draws:";
constexpr int kBase = 36;

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

[[noreturn]] void refuse(const std::string& option, std::string_view text, const char* wanted) {
  throw InputError(fmt::format("{}: '{}' is not {}", option, one_line(text, 40), wanted));
}

uint64_t read_number(const std::string& option, std::string_view text, int base) {
  uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    refuse(option, text, base == kBase ? "a number of base 36" : "a number below 2^64");
  return value;
}

std::vector<uint64_t> read_draws(const std::string& option, std::string_view text) {
  std::vector<uint64_t> draws;
  while (!text.empty()) {
    const size_t dot = std::min(text.find('.'), text.size());
    if (draws.size() == kMaxDraws) refuse(option, text, "the end: 100000 draws are the most");
    draws.push_back(dot == 0 ? 0 : read_number(option, text.substr(0, dot), kBase));
    if (dot == text.size()) break;
    text.remove_prefix(dot + 1);
    if (text.empty()) draws.push_back(0);
  }
  return draws;
}

}  // namespace

Choices::Choices(uint64_t seed, uint64_t index) : random_(true), seed_(seed), index_(index) {}

Choices::Choices(std::vector<uint64_t> draws) : draws_(std::move(draws)) {}

Choices::Choices(std::vector<uint64_t> draws, uint64_t seed, uint64_t index)
    : draws_(std::move(draws)), random_(true), seed_(seed), index_(index) {}

uint64_t Choices::keep(uint64_t value) {
  MOETWIN_CHECK(drawn_.size() < kMaxDraws);
  drawn_.push_back(value);
  return value;
}

uint64_t Choices::below(uint64_t bound) {
  MOETWIN_CHECK(bound > 0);
  if (has_given()) return keep(draws_[drawn_.size()] % bound);
  return keep(random_ ? counter_random(seed_, index_, drawn_.size()) % bound : 0);
}

uint64_t Choices::seed() {
  if (has_given()) return keep(draws_[drawn_.size()] & kMaxScheduleSeed);
  return keep(random_ ? counter_random(seed_, index_, drawn_.size()) >> 1 : 0);
}

bool Choices::chance(uint32_t percent) {
  constexpr uint64_t kAll = 100;
  MOETWIN_CHECK(percent <= kAll);
  if (has_given()) return keep(draws_[drawn_.size()] % kAll) >= kAll - percent;
  const uint64_t drawn = random_ ? counter_random(seed_, index_, drawn_.size()) % kAll : percent;
  return keep((drawn + kAll - percent) % kAll) >= kAll - percent;
}

std::string draws_to_string(const std::vector<uint64_t>& draws) {
  std::string text(kDrawsPrefix);
  for (size_t i = 0; i < draws.size(); ++i) {
    if (i > 0) text += '.';
    if (draws[i] == 0) continue;
    char digits[16];
    text.append(digits, std::to_chars(digits, digits + sizeof digits, draws[i], kBase).ptr);
  }
  return text;
}

std::string seed_to_string(uint64_t seed, uint64_t index) {
  return fmt::format("{}{}:{}", kSeedPrefix, seed, index);
}

Choices parse_choices(const std::string& option, std::string_view text) {
  if (starts_with(text, kDrawsPrefix))
    return Choices(read_draws(option, text.substr(kDrawsPrefix.size())));
  if (!starts_with(text, kSeedPrefix)) refuse(option, text, "seed:SEED:INDEX or draws:A.B.C");
  const std::string_view numbers = text.substr(kSeedPrefix.size());
  const size_t colon = numbers.find(':');
  if (colon == std::string_view::npos) refuse(option, text, "seed:SEED:INDEX");
  return Choices(read_number(option, numbers.substr(0, colon), 10),
                 read_number(option, numbers.substr(colon + 1), 10));
}

std::vector<uint64_t> mutate_draws(const std::vector<uint64_t>& draws,
                                   const std::vector<uint64_t>& other, uint64_t seed,
                                   uint64_t index) {
  std::vector<uint64_t> result = draws;
  uint64_t n = 0;
  const auto next = [&](uint64_t bound) { return counter_random(seed, index, n++) % bound; };
  // What a case is decides most of it, and stands in front: early places are changed most.
  const auto place = [&] {
    const uint64_t size = result.size();
    return next(2) == 0 ? next(std::min<uint64_t>(size, 64)) : next(size);
  };
  const uint64_t changes = 1 + next(4);
  for (uint64_t i = 0; i < changes && !result.empty(); ++i) {
    const uint64_t at = place();
    const uint64_t length = std::min<uint64_t>(1 + next(8), result.size() - at);
    switch (next(7)) {
      case 0:
      case 1:
        result[at] = counter_random(seed, index, n++);
        break;
      case 2:
        result[at] = result[at] == 0 ? 0 : result[at] - 1;
        break;
      case 3:
        ++result[at];
        break;
      case 4:
        for (uint64_t j = at; j < std::min<uint64_t>(at + 4 * length, other.size()); ++j)
          if (j < result.size()) result[j] = other[j];
        break;
      case 5:
        result.erase(result.begin() + static_cast<ptrdiff_t>(at),
                     result.begin() + static_cast<ptrdiff_t>(at + length));
        break;
      default:
        result.resize(at);
        break;
    }
  }
  return result;
}

}  // namespace moetwin
