#include "model/routing_kinds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "model/counter_random.h"
#include "model/trace_files.h"

namespace moetwin {
namespace {

[[noreturn]] void refuse_field(const char* field, const std::string& value,
                               const std::string& limit) {
  throw InputError(std::string("routing.") + field + ": " + value + " is not " + limit);
}

/// What every kind needs: sizes, whether a token's experts differ, and a token's key.
struct Common {
  Common(const RoutingSpec& spec, const Shape& shape)
      : experts(shape.experts),
        distinct(!spec.duplicates && shape.topk <= shape.experts),
        seed(spec.seed) {}

  Key key(Stream stream, const TokenPlace& place) const {
    return Key(seed, stream).with(place.rank).with(place.token);
  }

  uint32_t experts;
  bool distinct;
  uint64_t seed;
};

/// Numbers already taken, ascending; gives the r-th number that is not.
class TakenNumbers {
 public:
  void take(uint32_t number) {
    uint32_t at = count_++;
    for (; at > 0 && taken_[at - 1] > number; --at) taken_[at] = taken_[at - 1];
    taken_[at] = number;
  }
  uint32_t free_number(uint32_t r) const {
    for (uint32_t i = 0; i < count_ && taken_[i] <= r; ++i) ++r;
    return r;
  }
  uint32_t count() const { return count_; }

 private:
  std::array<uint32_t, kMaxTopk> taken_{};
  uint32_t count_ = 0;
};

/// Draws numbers below `limit` for slots first .. first + slots.size() - 1; with `distinct` none
/// that `taken` holds, and adds them to it.
template <class Store>
void draw_uniform(const Key& key, uint32_t limit, bool distinct, TakenNumbers& taken,
                  uint32_t first, std::span<int32_t> slots, Store&& expert_of) {
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const uint64_t bits = key.draw(first + i);
    uint32_t number = 0;
    if (distinct) {
      number = taken.free_number(static_cast<uint32_t>(below(bits, limit - taken.count())));
      taken.take(number);
    } else {
      number = static_cast<uint32_t>(below(bits, limit));
    }
    slots[i] = static_cast<int32_t>(expert_of(number));
  }
}

constexpr auto kSameNumber = [](uint32_t number) { return number; };

class UniformDraw : public ExpertDraw {
 public:
  explicit UniformDraw(const Common& common) : common_(common) {}
  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    TakenNumbers taken;
    draw_uniform(common_.key(Stream::RoutingExperts, place), common_.experts, common_.distinct,
                 taken, 0, slots, kSameNumber);
  }

 private:
  Common common_;
};

class HotExpertDraw : public ExpertDraw {
 public:
  HotExpertDraw(const Common& common, uint32_t expert, double share)
      : common_(common), expert_(expert), share_(share) {}

  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    TakenNumbers taken;
    uint32_t first = 0;
    if (happens(common_.key(Stream::RoutingShare, place).draw(0), share_)) {
      slots[0] = static_cast<int32_t>(expert_);
      taken.take(expert_);
      first = 1;
    }
    draw_uniform(common_.key(Stream::RoutingExperts, place), common_.experts, common_.distinct,
                 taken, first, slots.subspan(first), kSameNumber);
  }

 private:
  Common common_;
  uint32_t expert_;
  double share_;
};

class HotRankDraw : public ExpertDraw {
 public:
  HotRankDraw(const Common& common, const Shape& shape, uint32_t rank, double share)
      : common_(common),
        local_(shape.num_local_experts()),
        first_expert_(rank * shape.num_local_experts()),
        share_(share) {}

  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    const Key key = common_.key(Stream::RoutingExperts, place);
    TakenNumbers taken;
    if (!happens(common_.key(Stream::RoutingShare, place).draw(0), share_)) {
      draw_uniform(key, common_.experts, common_.distinct, taken, 0, slots, kSameNumber);
      return;
    }
    // One rank has no others to spill to.
    const uint32_t others = common_.experts - local_;
    const uint32_t k = static_cast<uint32_t>(slots.size());
    const uint32_t hot_slots = others == 0 ? k : std::min(k, local_);
    draw_uniform(key, local_, common_.distinct, taken, 0, slots.first(hot_slots),
                 [this](uint32_t number) { return first_expert_ + number; });
    TakenNumbers others_taken;
    draw_uniform(
        key, others, common_.distinct, others_taken, hot_slots, slots.subspan(hot_slots),
        [this](uint32_t number) { return number < first_expert_ ? number : number + local_; });
  }

 private:
  Common common_;
  uint32_t local_;
  uint32_t first_expert_;
  double share_;
};

class GroupLimitedDraw : public ExpertDraw {
 public:
  GroupLimitedDraw(const Common& common, uint32_t groups, uint32_t topk_groups)
      : common_(common),
        groups_(groups),
        topk_groups_(topk_groups),
        group_experts_(common.experts / groups) {}

  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    // A token never needs more groups than slots unless the specification asks for them.
    std::vector<uint32_t> chosen(groups_);
    for (uint32_t i = 0; i < groups_; ++i) chosen[i] = i;
    const Key group_key = common_.key(Stream::RoutingGroups, place);
    for (uint32_t i = 0; i < topk_groups_; ++i) {
      std::swap(chosen[i], chosen[i + below(group_key.draw(i), groups_ - i)]);
    }
    TakenNumbers taken;
    draw_uniform(common_.key(Stream::RoutingExperts, place), topk_groups_ * group_experts_,
                 common_.distinct, taken, 0, slots, [this, &chosen](uint32_t number) {
                   return chosen[number / group_experts_] * group_experts_ +
                          number % group_experts_;
                 });
  }

 private:
  Common common_;
  uint32_t groups_;
  uint32_t topk_groups_;
  uint32_t group_experts_;
};

class RoundRobinDraw : public ExpertDraw {
 public:
  RoundRobinDraw(const Common& common, uint64_t offset)
      : experts_(common.experts), offset_(offset % common.experts) {}
  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    for (uint64_t k = 0; k < slots.size(); ++k) {
      slots[k] = static_cast<int32_t>((place.global * slots.size() + k + offset_) % experts_);
    }
  }

 private:
  uint64_t experts_;
  uint64_t offset_;
};

class ZipfDraw : public ExpertDraw {
 public:
  ZipfDraw(const Common& common, double alpha) : common_(common) {
    const Key key(common.seed, Stream::RoutingOrder);
    std::vector<std::pair<uint64_t, uint32_t>> order(common.experts);
    for (uint32_t e = 0; e < common.experts; ++e) order[e] = {key.draw(e), e};
    std::sort(order.begin(), order.end());
    for (uint32_t place = 0; place < common.experts; ++place) {
      expert_at_.push_back(order[place].second);
      weight_at_.push_back(round_to_16_bits(std::pow(place + 1.0, -alpha)));
    }
  }

  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    const Key key = common_.key(Stream::RoutingExperts, place);
    std::vector<double> weight_at = weight_at_;
    for (uint32_t k = 0; k < slots.size(); ++k) {
      const size_t chosen = draw_place(weight_at, key.draw(k));
      slots[k] = static_cast<int32_t>(expert_at_[chosen]);
      if (common_.distinct) weight_at[chosen] = 0;
    }
  }

 private:
  /// A place with probability proportional to its weight. The total is added up anew, smallest
  /// first: taking a large weight off a running total would leave only rounding errors.
  static size_t draw_place(const std::vector<double>& weight_at, uint64_t bits) {
    double total = 0;
    for (size_t i = weight_at.size(); i-- > 0;) total += weight_at[i];
    double left = unit_interval(bits) * total;
    size_t last = 0;
    for (size_t i = 0; i < weight_at.size(); ++i) {
      if (weight_at[i] == 0) continue;
      if (left < weight_at[i]) return i;
      left -= weight_at[i];
      last = i;
    }
    return last;
  }

  Common common_;
  std::vector<uint32_t> expert_at_;
  std::vector<double> weight_at_;
};

/// Systematic sampling in integers: in a random order of the experts, each as wide as its chance to
/// be taken, every K-th part of the whole is hit once. An expert's chance is exactly K times its
/// share of the counts, at most 1; what is cut there goes to the others in proportion.
class CountsDraw : public ExpertDraw {
 public:
  CountsDraw(const Common& common, uint32_t topk, std::vector<uint64_t> counts)
      : common_(common), width_(std::move(counts)) {
    for (const uint64_t count : width_) total_ += count;
    if (common.distinct) limit_chances(topk);
  }

  void draw(const TokenPlace& place, std::span<int32_t> slots) const override {
    const Key key = common_.key(Stream::RoutingExperts, place);
    if (!common_.distinct) {
      for (uint32_t k = 0; k < slots.size(); ++k) slots[k] = draw_one(key.draw(k));
      return;
    }
    std::vector<uint32_t> order(common_.experts);
    for (uint32_t i = 0; i < common_.experts; ++i) order[i] = i;
    const Key order_key = common_.key(Stream::RoutingOrder, place);
    for (uint32_t i = common_.experts - 1; i > 0; --i) {
      std::swap(order[i], order[below(order_key.draw(i), i + 1)]);
    }
    uint64_t next = below(key.draw(0), total_);
    uint64_t end = 0;
    size_t k = 0;
    for (const uint32_t expert : order) {
      end += width_[expert];
      if (next >= end) continue;
      slots[k++] = static_cast<int32_t>(expert);
      next += total_;
    }
    MOETWIN_CHECK(k == slots.size());
  }

 private:
  /// Turns counts into widths of which K times total_ is the sum and none is above total_.
  void limit_chances(uint32_t topk) {
    std::vector<uint8_t> is_sure(width_.size(), 0);
    uint64_t draws = topk;
    for (bool changed = true; changed;) {
      changed = false;
      uint64_t rest = 0;
      for (size_t e = 0; e < width_.size(); ++e) rest += is_sure[e] ? 0 : width_[e];
      if (draws > 0 && rest == 0) {
        // Fewer experts were ever used than a token needs: the unused ones share the remainder.
        for (size_t e = 0; e < width_.size(); ++e) width_[e] = is_sure[e] ? 0 : 1;
        changed = true;
        continue;
      }
      for (size_t e = 0; e < width_.size(); ++e) {
        if (is_sure[e] || draws * width_[e] <= rest) continue;
        is_sure[e] = 1;
        changed = true;
      }
      draws = topk;
      for (const uint8_t sure : is_sure) draws -= sure;
      total_ = rest;
    }
    MOETWIN_CHECK(draws > 0 && total_ > 0);
    for (size_t e = 0; e < width_.size(); ++e) {
      width_[e] = is_sure[e] ? total_ : draws * width_[e];
    }
  }

  int32_t draw_one(uint64_t bits) const {
    uint64_t left = below(bits, total_);
    uint32_t expert = 0;
    while (left >= width_[expert]) left -= width_[expert++];
    return static_cast<int32_t>(expert);
  }

  Common common_;
  std::vector<uint64_t> width_;
  uint64_t total_ = 0;
};

void check_share(double share) {
  if (!(share >= 0 && share <= 1)) refuse_field("share", std::to_string(share), "0 to 1");
}

std::unique_ptr<const ExpertDraw> make_group_limited(const RoutingSpec& spec, const Shape& shape,
                                                     const Common& common) {
  const uint32_t groups = spec.groups == 0 ? shape.ranks : spec.groups;
  if (groups > shape.experts || shape.experts % groups != 0) {
    refuse_field("groups", std::to_string(groups),
                 "a divisor of shape.experts, " + std::to_string(shape.experts));
  }
  if (spec.topk_groups > groups) {
    refuse_field("topk_groups", std::to_string(spec.topk_groups), "1 to " + std::to_string(groups));
  }
  const uint32_t wanted = spec.topk_groups == 0 ? std::min(4u, groups) : spec.topk_groups;
  const uint32_t group_experts = shape.experts / groups;
  const uint32_t needed = (shape.topk + group_experts - 1) / group_experts;
  return std::make_unique<GroupLimitedDraw>(common, groups,
                                            std::min(std::max(wanted, needed), groups));
}

}  // namespace

bool is_drawn(RoutingKind kind) {
  return kind != RoutingKind::Explicit && kind != RoutingKind::Trace && kind != RoutingKind::File;
}

std::unique_ptr<const ExpertDraw> make_expert_draw(const RoutingSpec& spec, const Shape& shape) {
  const Common common(spec, shape);
  switch (spec.kind) {
    case RoutingKind::Uniform:
      return std::make_unique<UniformDraw>(common);
    case RoutingKind::Zipf:
      if (!(spec.alpha >= 0 && spec.alpha <= 10)) {
        refuse_field("alpha", std::to_string(spec.alpha), "0 to 10");
      }
      return std::make_unique<ZipfDraw>(common, spec.alpha);
    case RoutingKind::HotExpert:
      if (spec.expert >= shape.experts) {
        refuse_field("expert", std::to_string(spec.expert),
                     "below shape.experts, " + std::to_string(shape.experts));
      }
      check_share(spec.share);
      return std::make_unique<HotExpertDraw>(common, spec.expert, spec.share);
    case RoutingKind::HotRank:
      if (spec.rank >= shape.ranks) {
        refuse_field("rank", std::to_string(spec.rank),
                     "below shape.ranks, " + std::to_string(shape.ranks));
      }
      check_share(spec.share);
      return std::make_unique<HotRankDraw>(common, shape, spec.rank, spec.share);
    case RoutingKind::GroupLimited:
      return make_group_limited(spec, shape, common);
    case RoutingKind::RoundRobin:
      return std::make_unique<RoundRobinDraw>(common, spec.offset);
    case RoutingKind::Counts:
      return make_counts_draw(
          spec, shape,
          read_expert_counts(spec.path, {spec.model, spec.domain, spec.layer}, shape.experts));
    case RoutingKind::Explicit:
    case RoutingKind::Trace:
    case RoutingKind::File:
      break;
  }
  MOETWIN_CHECK(is_drawn(spec.kind));
  return nullptr;
}

std::unique_ptr<const ExpertDraw> make_counts_draw(const RoutingSpec& spec, const Shape& shape,
                                                   std::vector<uint64_t> counts) {
  MOETWIN_CHECK(counts.size() == shape.experts);
  return std::make_unique<CountsDraw>(Common(spec, shape), shape.topk, std::move(counts));
}

}  // namespace moetwin
