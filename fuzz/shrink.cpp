#include "fuzz/shrink.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "fuzz/shrink_moves.h"

namespace moetwin {
namespace {

/// Deviations that a person would still read; what needs more stays a policy and a seed where it
/// was one.
constexpr size_t kMostDeviations = 24;

/// What else a smaller case is tried under: its own schedule was good for the larger one, and with
/// more SMs fewer rows are enough to be out of step.
struct Surroundings {
  const char* schedule;
  uint32_t more_sms;
  Landing landing;
};
constexpr Surroundings kOthers[] = {
    {"fifo", 1, Landing::Late},      {"random:1", 1, Landing::Late},
    {"random:2", 0, Landing::Late},  {"random:3", 1, Landing::Early},
    {"random:4", 0, Landing::Early}, {"pct:1:2", 1, Landing::Late},
    {"pct:2:2", 0, Landing::Early},  {"pct:3:3", 1, Landing::Random},
};

class Shrinker {
 public:
  Shrinker(const Case& c, const ShrinkOptions& options) : options_(options), case_(c) {
    verdict_ = judge(c);
    if (verdict_.cause.none())
      throw InputError("CASE: has no finding to keep; give the options it was found with");
  }

  ShrinkResult run() {
    try_case(with_explicit_routing(case_));
    do {
      bool smaller = true;
      while (smaller && !spent()) {
        smaller = false;
        for (const ShrinkMove move : shrink_moves()) smaller |= repeat(move);
        smaller |= shorten_schedule();
        for (const ShrinkMove move : world_moves()) smaller |= repeat(move);
      }
    } while (smaller_in_other_surroundings());
    return {case_, verdict_.cause, verdict_.finding, runs_, !spent()};
  }

 private:
  bool spent() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return runs_ >= options_.most_runs ||
           (options_.seconds > 0 && passed.count() >= options_.seconds);
  }

  Judged judge(const Case& c, bool record = false) {
    ++runs_;
    JudgeOptions judge = options_.judge;
    judge.record = record;
    Judged judged = judge_case(c, judge);
    if (options_.progress) options_.progress();
    return judged;
  }

  /// Whether the case survives its file: what is written must be what was judged.
  static bool well_formed(const std::string& text, const Case& c) {
    try {
      return parse_case(text, "") == c;
    } catch (const InputError&) {
      return false;
    }
  }

  /// Takes `c` where it keeps the verdict. The same case is never judged twice.
  bool try_case(const Case& c) {
    if (spent() || c == case_) return false;
    const std::string text = case_to_json(c);
    if (!tried_.insert(text).second || !well_formed(text, c)) return false;
    Judged judged = judge(c);
    if (!keep_verdict(verdict_, judged)) return false;
    case_ = c;
    verdict_ = std::move(judged);
    return true;
  }

  /// One move as long as it makes the case smaller.
  bool repeat(ShrinkMove move) {
    bool any = false;
    for (bool smaller = true; smaller && !spent();) {
      smaller = false;
      for (const Case& c : move(case_))
        if (try_case(c)) {
          smaller = any = true;
          break;
        }
    }
    return any;
  }

  /// The first case with something less in it that keeps the verdict once what is around it is
  /// another. More SMs may go again later; what was taken out does not come back.
  bool smaller_in_other_surroundings() {
    for (const ShrinkMove move : count_moves())
      for (const Case& c : move(case_))
        for (const Surroundings& others : kOthers) {
          Case other = c;
          other.schedule = others.schedule;
          other.kernel.sms_per_rank += others.more_sms;
          other.world.landing = others.landing;
          if (try_case(other)) return true;
          if (spent()) return false;
        }
    return false;
  }

  bool try_schedule(const std::string& schedule) {
    Case c = case_;
    c.schedule = schedule;
    return try_case(c);
  }

  /// Fifo where it will do, else the choices that matter, one by one.
  bool shorten_schedule() {
    if (case_.schedule == "fifo") return false;
    if (try_schedule("fifo")) return true;
    if (spent()) return false;
    Schedule schedule = parse_schedule(case_.schedule);
    const bool was_replay = schedule.replay;
    if (!was_replay) {
      const Judged recorded = judge(case_, true);
      if (recorded.schedule_string.empty()) return false;
      schedule = parse_schedule(recorded.schedule_string);
    }
    const std::string before = case_.schedule;
    std::vector<Deviation> kept = fewest_deviations(schedule);
    if (was_replay || kept.size() <= kMostDeviations) return case_.schedule != before;
    case_.schedule = before;
    return false;
  }

  /// Takes out halves, quarters, ... single choices, as long as the verdict stays.
  std::vector<Deviation> fewest_deviations(Schedule schedule) {
    std::vector<Deviation> kept = schedule.deviations;
    for (size_t part = std::max<size_t>(kept.size(), 1); part > 0 && !spent(); part /= 2) {
      for (size_t first = 0; first < kept.size() && !spent();) {
        std::vector<Deviation> fewer = kept;
        const size_t end = std::min(first + part, kept.size());
        fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(first),
                    fewer.begin() + static_cast<ptrdiff_t>(end));
        schedule.deviations = fewer;
        if (try_schedule(to_string(schedule)))
          kept = std::move(fewer);
        else
          first = end;
      }
    }
    return kept;
  }

  const ShrinkOptions& options_;
  Case case_;
  Judged verdict_;
  uint64_t runs_ = 0;
  std::unordered_set<std::string> tried_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

ShrinkResult shrink_case(const Case& c, const ShrinkOptions& options) {
  return Shrinker(c, options).run();
}

}  // namespace moetwin
