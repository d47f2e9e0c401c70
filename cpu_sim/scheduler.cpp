#include "cpu_sim/scheduler.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <new>
#include <string>

#include "common/check.h"

namespace moetwin {

namespace {

/// Streams apart from those of agents, which are numbered from 0.
enum RandomStream : uint64_t {
  kStreamAgentKeys = uint64_t{1} << 32,
  kStreamGroupKeys = uint64_t{2} << 32,
  kStreamChangePoints = uint64_t{3} << 32,
};

// A pct key inside its band: lowered groups above all others, then the group, then the agent.
constexpr uint32_t kPctAgentBits = 24;
constexpr uint32_t kPctGroupBits = 32;
constexpr uint64_t kPctLowered = uint64_t{1} << (kPctAgentBits + kPctGroupBits);

uint64_t group_of(uint32_t role, uint32_t rank, bool landing) {
  return (uint64_t{rank} << 32 | role) * 2 + (landing ? 1 : 0);
}

/// A waiting time that is close to exponential, by integers alone: the number of leading zeros is
/// geometric, and the bits behind the first one interpolate. Mean about 1.44 * 2^24.
uint64_t exponential(uint64_t bits) {
  constexpr uint32_t kFractionBits = 24;
  const uint32_t zeros = static_cast<uint32_t>(std::countl_zero(bits | 1));
  const uint64_t fraction = (bits << zeros << 1) >> (64 - kFractionBits);
  return (uint64_t{zeros + 1} << kFractionBits) - fraction;
}

bool policy_orders_by_arrival(SchedulePolicy policy) {
  return policy == SchedulePolicy::Fifo || policy == SchedulePolicy::Slow ||
         policy == SchedulePolicy::Step;
}

}  // namespace

/// Agent numbers on their way into the hash, in batches.
struct Scheduler::Digest {
  static_assert(std::endian::native == std::endian::little, "digests are over little-endian bytes");
  static constexpr size_t kBatch = 256;

  Digest() : state(XXH3_createState()) {
    if (state == nullptr) throw std::bad_alloc();
  }
  ~Digest() { XXH3_freeState(state); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void start() {
    XXH3_128bits_reset(state);
    filled = 0;
  }
  void add(uint32_t agent) {
    batch[filled++] = agent;
    if (filled == kBatch) flush();
  }
  void flush() {
    XXH3_128bits_update(state, batch, filled * sizeof(uint32_t));
    filled = 0;
  }

  XXH3_state_t* state;
  size_t filled = 0;
  uint32_t batch[kBatch];
};

Scheduler::Scheduler() : digest_(std::make_unique<Digest>()) { start({}, {}); }
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

void Scheduler::start(const Schedule& schedule, const RunSettings& settings) {
  held_role_ = UINT32_MAX;
  if (schedule.policy == SchedulePolicy::Slow) {
    const auto found = std::find(settings.roles.begin(), settings.roles.end(), schedule.role);
    if (found == settings.roles.end())
      throw InputError("schedule: slow names no role of the kernel: '" + schedule.role + "'");
    held_role_ = static_cast<uint32_t>(found - settings.roles.begin());
  }
  schedule_ = schedule;
  landing_ = settings.landing;
  record_ = settings.record;
  chooser_ = settings.chooser;
  picked_ = Chooser::kNobody;
  MOETWIN_CHECK(chooser_ == nullptr || schedule.policy == SchedulePolicy::Step);
  preempts_ = schedule.policy != SchedulePolicy::Fifo;
  agents_.clear();
  queue_.start(policy_orders_by_arrival(schedule.policy) ? RunQueue::Order::Arrival
                                                         : RunQueue::Order::Key);
  shadow_.start(RunQueue::Order::Arrival);
  recorded_.clear();
  pushes_ = 0;
  choices_ = 0;
  random_now_ = 0;
  next_deviation_ = 0;
  preempted_ = false;
  digest_->start();
  change_points_.clear();
  next_change_ = 0;
  lowered_.clear();
  if (schedule.policy == SchedulePolicy::Pct) {
    const uint64_t span = std::max<uint64_t>(settings.expected_choices, 1);
    for (uint32_t i = 0; i < schedule.depth; ++i)
      change_points_.push_back(counter_random(schedule.seed, kStreamChangePoints, i) % span);
    std::sort(change_points_.begin(), change_points_.end());
  }
}

uint32_t Scheduler::add_agent(const AgentInfo& info) {
  const uint32_t agent = num_agents();
  MOETWIN_CHECK(info.rank <= UINT16_MAX);
  Agent& added = agents_.emplace_back();
  added.role = info.role;
  added.rank = static_cast<uint16_t>(info.rank);
  added.landing = info.landing;
  added.held = !info.landing && info.role == held_role_ && info.rank == schedule_.rank;
  queue_.reserve_agents(agent + 1);
  if (record_) shadow_.reserve_agents(agent + 1);
  return agent;
}

uint64_t Scheduler::key_of(uint32_t agent, uint64_t time) {
  Agent& info = agents_[agent];
  if (schedule_.policy == SchedulePolicy::Timed) return band_key(KeyBand::Normal, time);
  if (info.landing && landing_ == LandingOrder::Late)
    return band_key(KeyBand::LateLanding, pushes_);
  switch (schedule_.policy) {
    case SchedulePolicy::Random: {
      const uint64_t bits =
          counter_random(schedule_.seed, kStreamAgentKeys + agent, info.times_queued++);
      return band_key(KeyBand::Normal, random_now_ + exponential(bits));
    }
    case SchedulePolicy::Pct:
      return pct_key(agent);
    default:
      return band_key(info.held ? KeyBand::Held : KeyBand::Normal, pushes_);
  }
}

uint64_t Scheduler::pct_key(uint32_t agent) const {
  const Agent& info = agents_[agent];
  const uint64_t group = group_of(info.role, info.rank, info.landing);
  const uint64_t low =
      counter_random(schedule_.seed, kStreamAgentKeys + agent, 0) >> (64 - kPctAgentBits);
  const auto found = std::find(lowered_.rbegin(), lowered_.rend(), group);
  if (found != lowered_.rend()) {
    const auto place = static_cast<uint64_t>(lowered_.rend() - found);
    return band_key(KeyBand::Normal, kPctLowered | place << kPctAgentBits | low);
  }
  const uint64_t high =
      counter_random(schedule_.seed, kStreamGroupKeys, group) >> (64 - kPctGroupBits);
  return band_key(KeyBand::Normal, high << kPctAgentBits | low);
}

/// The group of `agent` goes behind every other from now on; queued agents are moved along.
void Scheduler::lower_priority(uint32_t agent) {
  const Agent& info = agents_[agent];
  lowered_.push_back(group_of(info.role, info.rank, info.landing));
  queue_.rekey([this](uint32_t queued, uint64_t key) {
    return key >> kKeyBandShift == 0 ? pct_key(queued) : key;
  });
}

void Scheduler::enqueue(uint32_t agent, uint64_t key) {
  queue_.push(agent, key);
  if (record_) {
    const bool late = agents_[agent].landing && landing_ == LandingOrder::Late;
    shadow_.push(agent, band_key(late ? KeyBand::LateLanding : KeyBand::Normal, pushes_));
  }
  ++pushes_;
}

void Scheduler::runnable(uint32_t agent, uint64_t time) {
  MOETWIN_CHECK(agent < num_agents());
  enqueue(agent, key_of(agent, time));
}

bool Scheduler::forced() const {
  return next_deviation_ < schedule_.deviations.size() &&
         schedule_.deviations[next_deviation_].choice == choices_;
}

uint32_t Scheduler::ask_chooser(uint32_t running) {
  candidates_.clear();
  if (running != Chooser::kNobody) candidates_.push_back(running);
  queue_.list(candidates_);
  return chooser_->choose(candidates_, running);
}

uint32_t Scheduler::next() {
  MOETWIN_CHECK(!queue_.empty());
  uint32_t agent;
  if (chooser_ != nullptr) {
    agent = picked_ != Chooser::kNobody ? picked_ : ask_chooser(Chooser::kNobody);
    picked_ = Chooser::kNobody;
    MOETWIN_CHECK(queue_.remove(agent));
  } else if (forced()) {
    agent = schedule_.deviations[next_deviation_].agent;
    if (!queue_.remove(agent))
      throw InputError("schedule: this replay does not fit this case: choice " +
                       std::to_string(choices_) + " names agent " + std::to_string(agent) +
                       ", which cannot run there");
    ++next_deviation_;
  } else {
    const RunQueue::Entry first = queue_.pop_min();
    agent = first.agent;
    advance(first.key);
  }
  bool by_default = true;
  if (record_) {
    // The base would not have preempted: there, whoever was asked in continues() goes on.
    by_default = !preempted_ && shadow_.min().agent == agent;
    shadow_.remove(agent);
  }
  preempted_ = false;
  chosen(agent, by_default);
  return agent;
}

/// Random: waiting times run from the key of the agent that went last.
void Scheduler::advance(uint64_t key) {
  if (key >> kKeyBandShift == 0) random_now_ = key;
}

bool Scheduler::wins(uint32_t agent, uint64_t key) const {
  if (queue_.empty()) return true;
  const RunQueue::Entry first = queue_.min();
  return key != first.key ? key < first.key : agent < first.agent;
}

bool Scheduler::continues(uint32_t agent, uint64_t time) {
  if (!preempts_) return true;
  if (schedule_.policy == SchedulePolicy::Pct)
    while (next_change_ < change_points_.size() && change_points_[next_change_] <= choices_) {
      lower_priority(agent);
      ++next_change_;
    }
  const uint64_t key = key_of(agent, time);
  bool goes_on;
  if (chooser_ != nullptr) {
    picked_ = ask_chooser(agent);
    goes_on = picked_ == agent;
    if (goes_on) picked_ = Chooser::kNobody;
  } else if (forced()) {
    goes_on = schedule_.deviations[next_deviation_].agent == agent;
    if (goes_on) ++next_deviation_;
  } else if (schedule_.policy == SchedulePolicy::Step ||
             (schedule_.policy == SchedulePolicy::Slow && !agents_[agent].held)) {
    goes_on = true;
  } else {
    goes_on = wins(agent, key);
    if (goes_on) advance(key);
  }
  if (goes_on)
    chosen(agent, true);
  else
    enqueue(agent, key);
  preempted_ = !goes_on;
  return goes_on;
}

/// Counts a choice. `by_default`: the base of recorded() would have made the same one.
void Scheduler::chosen(uint32_t agent, bool by_default) {
  if (!by_default) recorded_.push_back({choices_, agent});
  digest_->add(agent);
  ++choices_;
}

uint64_t Scheduler::random(uint32_t agent) {
  MOETWIN_CHECK(agent < num_agents());
  return counter_random(schedule_.seed, agent, agents_[agent].draws++);
}

std::string Scheduler::digest() const {
  digest_->flush();
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(digest_->state));
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

Schedule Scheduler::recorded() const {
  MOETWIN_CHECK(record_);
  Schedule schedule;
  schedule.replay = true;
  if (preempts_) {
    schedule.policy = SchedulePolicy::Step;
    schedule.seeded = schedule_.seeded;
    schedule.seed = schedule_.seeded ? schedule_.seed : 0;
  }
  schedule.deviations = recorded_;
  return schedule;
}

}  // namespace moetwin
