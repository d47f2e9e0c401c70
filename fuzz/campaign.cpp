#include "fuzz/campaign.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "cpu_sim/simulation_pool.h"
#include "fuzz/campaign_files.h"
#include "fuzz/choices.h"
#include "fuzz/generation.h"
#include "fuzz/generator.h"
#include "fuzz/kept_weights.h"
#include "fuzz/plants.h"

namespace moetwin {
namespace {

constexpr uint64_t kKeptWeightBytes = uint64_t{512} << 20;
constexpr size_t kMaxCorpus = 4000;
constexpr double kSecondsBetweenSaves = 1;

/// What numbers about a case are drawn for, beside the case itself.
enum class Side : uint64_t { Check = 1, Relation, Origin, Parents, Mutation };

uint64_t number(const CampaignOptions& o, uint64_t index, Side side, uint64_t n = 0) {
  constexpr uint64_t kBeside = 0x6265736964657321u;
  return counter_random(o.seed ^ kBeside, index, static_cast<uint64_t>(side) * 16 + n);
}

bool in_share(double share, uint64_t random) {
  constexpr uint64_t kParts = 1'000'000;
  return static_cast<double>(random % kParts) < share * kParts;
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, Peers& peers, CampaignState& state)
      : options_(options),
        peers_(peers),
        state_(state),
        weights_(kKeptWeightBytes),
        pools_(options.jobs) {
    if (!options.plant.empty() && !is_plant(options.plant))
      throw InputError("plant: '" + options.plant.substr(0, 60) +
                       "' is no planted fault (moetwin faults --list)");
  }

  void run(const std::function<void(const CampaignState&)>& progress) {
    const auto begin = std::chrono::steady_clock::now();
    const double before = state_.seconds;
    double saved = before;
    bool stop = false;
    if (writes()) save_campaign(options_, state_);
    while (!stop) {
      const uint64_t left = options_.cases == 0 ? kGeneration : options_.cases - state_.next;
      const uint64_t cases = std::min(kGeneration, left);
      GenerationYield yield = run_generation(cases);
      state_.seconds =
          before + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      yield.stop = options_.seconds > 0 && state_.seconds - before >= options_.seconds;
      stop = merge(yield);
      state_.next += cases;
      stop = stop || (options_.cases != 0 && state_.next >= options_.cases) ||
             (options_.first_only && !state_.findings.empty());
      if (writes() && (stop || state_.seconds - saved >= kSecondsBetweenSaves)) {
        save_campaign(options_, state_);
        saved = state_.seconds;
      }
      if (progress) progress(state_);
    }
  }

 private:
  bool writes() const { return !options_.out.empty() && peers_.rank() == 0; }

  GenerationYield run_generation(uint64_t cases) {
    GenerationYield yield;
    std::mutex mutex;
    std::exception_ptr failure;
    const uint64_t first = state_.next + peers_.rank();
    const uint64_t step = peers_.count();
    const uint64_t mine = cases > peers_.rank() ? (cases - peers_.rank() + step - 1) / step : 0;
#pragma omp parallel for num_threads(static_cast <int>(options_.jobs)) schedule(dynamic, 1)
    for (uint64_t i = 0; i < mine; ++i) {
      try {
        run_case(first + i * step, yield, mutex);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return yield;
  }

  void run_case(uint64_t index, GenerationYield& yield, std::mutex& mutex) {
    PlannedCase planned = plan_case(options_, state_, index);
    JudgeOptions judge;
    judge.left = options_.left;
    judge.right = options_.right;
    judge.math = options_.math;
    judge.check = planned.check;
    judge.relation = planned.relation;
    judge.relation_seed = planned.relation_seed;
    judge.weights = weights_.maker();
    judge.pool = &pools_[static_cast<size_t>(omp_get_thread_num())];
    Judged judged = judge_case(planned.c, judge);
    const bool reached = (judged.signals & ~state_.signals).any();
    const std::lock_guard<std::mutex> lock(mutex);
    yield.rows += judged.rows;
    yield.checked += planned.check ? 1 : 0;
    yield.related += judged.related ? 1 : 0;
    if (!judged.cause.none()) keep_finding(index, planned, judged, yield);
    if (reached) yield.reached.push_back({index, judged.signals, std::move(planned.draws)});
  }

  /// Written at once: what is reported is never lost. A lower index takes the place of a higher.
  void keep_finding(uint64_t index, const PlannedCase& planned, const Judged& judged,
                    GenerationYield& yield) {
    CampaignFinding finding;
    finding.cause = judged.cause;
    finding.index = index;
    finding.times = 1;
    finding.draws = draws_to_string(planned.draws);
    finding.text = judged.finding.text;
    if (!judged.finding.other.empty()) finding.text += "\n" + judged.finding.other;
    finding.checked = planned.check;
    finding.file = cause_file(judged.cause);
    const bool known = state_.findings.count(judged.cause) != 0;
    const bool first = std::none_of(yield.findings.begin(), yield.findings.end(),
                                    [&](const CampaignFinding& other) {
                                      return other.cause == judged.cause && other.index < index;
                                    });
    if (!known && first && !options_.out.empty()) write_finding(options_, finding, planned.c);
    yield.findings.push_back(std::move(finding));
  }

  /// Takes the yields of all processes in the order of their cases. Whether to stop.
  bool merge(const GenerationYield& mine) {
    GenerationYield all = mine;
    if (peers_.count() > 1) {
      all = {};
      bool first = true;
      for (const std::string& text : peers_.exchange(yield_to_text(mine))) {
        GenerationYield one = yield_from_text(text);
        // One clock decides for all.
        all.stop = first ? one.stop : all.stop;
        first = false;
        all.add(std::move(one));
      }
    }
    all.sort();
    state_.rows += all.rows;
    state_.checked += all.checked;
    state_.related += all.related;
    for (const Reached& one : all.reached) {
      if ((one.signals & ~state_.signals).none()) continue;
      state_.signals |= one.signals;
      if (state_.corpus.size() < kMaxCorpus) state_.corpus.push_back(one.draws);
    }
    for (const CampaignFinding& finding : all.findings) take(finding);
    return all.stop;
  }

  void take(const CampaignFinding& finding) {
    const auto [place, added] = state_.findings.try_emplace(finding.cause, finding);
    if (!added) {
      ++place->second.times;
      return;
    }
    // Two processes may have written the same cause: the file is made that of the first case.
    if (!writes() || peers_.count() == 1) return;
    Choices draw = parse_choices("draws", finding.draws);
    Case c = draw_case(draw, options_.wide ? wide_profile() : small_profile());
    c.plant = options_.plant;
    write_finding(options_, finding, c);
  }

  const CampaignOptions& options_;
  Peers& peers_;
  CampaignState& state_;
  KeptWeights weights_;
  std::vector<SimulationPool> pools_;  ///< [job]
};

}  // namespace

PlannedCase plan_case(const CampaignOptions& options, const CampaignState& state, uint64_t index) {
  PlannedCase planned;
  const bool changed =
      options.feedback && !state.corpus.empty() && number(options, index, Side::Origin) % 2 == 0;
  Choices draw(options.seed, index);
  if (changed) {
    const size_t size = state.corpus.size();
    const auto& parent = state.corpus[number(options, index, Side::Parents) % size];
    const auto& other = state.corpus[number(options, index, Side::Parents, 1) % size];
    const uint64_t seed = number(options, index, Side::Mutation);
    draw = Choices(mutate_draws(parent, other, seed, 0), seed, 1);
  }
  planned.c = draw_case(draw, options.wide ? wide_profile() : small_profile());
  planned.c.plant = options.plant;
  planned.draws = draw.drawn();
  planned.check = in_share(options.check, number(options, index, Side::Check));
  if (in_share(options.relations, number(options, index, Side::Relation)))
    planned.relation =
        static_cast<Relation>(number(options, index, Side::Relation, 1) % kNumRelations);
  planned.relation_seed = number(options, index, Side::Relation, 2);
  return planned;
}

void run_campaign(const CampaignOptions& options, Peers& peers, CampaignState& state,
                  const std::function<void(const CampaignState&)>& progress) {
  if (options.cases != 0 && state.next >= options.cases) return;
  Campaign(options, peers, state).run(progress);
}

}  // namespace moetwin
