// The chance in a random case, as one sequence of bounded draws: taken from a seed or from a list
// of numbers, recorded as it is drawn, and printed as one string that draws the same again. What
// the numbers mean is the generator's business.
//
//   seed:SEED:INDEX      case INDEX of stream SEED
//   draws:A.B.C...       the draws themselves, base 36, a zero left out
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moetwin {

/// Draws of a case at the most; far more than the generator makes.
constexpr size_t kMaxDraws = 100'000;

class Choices {
 public:
  /// Draws that follow from (seed, index) alone, the same on every machine.
  Choices(uint64_t seed, uint64_t index);
  /// Draws the given numbers in turn, each cut to its bound; behind the last one zeros, the first
  /// choice of each draw.
  explicit Choices(std::vector<uint64_t> draws);
  /// The same with random draws of (seed, index) behind the last one.
  Choices(std::vector<uint64_t> draws, uint64_t seed, uint64_t index);

  /// A number below `bound`, which is not 0.
  uint64_t below(uint64_t bound);
  /// low to high, both included.
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(below(uint64_t{high} - low + 1));
  }
  /// True in `percent` of 100 draws; a draw of 0 is false.
  bool chance(uint32_t percent);
  template <class T, size_t kCount>
  T pick(const T (&values)[kCount]) {
    return values[below(kCount)];
  }
  /// Index into `weights`, each as likely as its weight; their sum is not 0.
  template <size_t kCount>
  size_t weighted(const uint8_t (&weights)[kCount]) {
    uint64_t sum = 0;
    for (const uint8_t weight : weights) sum += weight;
    uint64_t place = below(sum);
    size_t i = 0;
    for (; place >= weights[i]; ++i) place -= weights[i];
    return i;
  }
  /// 0 to 2^63 - 1, a seed of a case.
  uint64_t seed();

  /// Everything drawn so far.
  const std::vector<uint64_t>& drawn() const { return drawn_; }
  /// The numbers it was made with.
  const std::vector<uint64_t>& given() const { return draws_; }

 private:
  bool has_given() const { return drawn_.size() < draws_.size(); }
  uint64_t keep(uint64_t value);

  std::vector<uint64_t> draws_;
  std::vector<uint64_t> drawn_;
  bool random_ = false;  ///< behind the given draws; else zeros
  uint64_t seed_ = 0;
  uint64_t index_ = 0;
};

std::string draws_to_string(const std::vector<uint64_t>& draws);
std::string seed_to_string(uint64_t seed, uint64_t index);

/// Reads either form. Throws InputError that begins with `option`.
Choices parse_choices(const std::string& option, std::string_view text);

/// A changed copy: a few numbers drawn anew, lowered or raised, a stretch taken out, doubled or
/// taken from `other`, or all behind one place dropped. Follows from (seed, index) alone.
std::vector<uint64_t> mutate_draws(const std::vector<uint64_t>& draws,
                                   const std::vector<uint64_t>& other, uint64_t seed,
                                   uint64_t index);

}  // namespace moetwin
