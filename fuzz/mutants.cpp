#include "fuzz/mutants.h"

#include <fmt/format.h>

#include "cpu_sim/simulate.h"
#include "fuzz/equivalent_mutants.h"
#include "fuzz/plant_cases.h"
#include "fuzz/plants.h"

namespace moetwin {
namespace {

constexpr Role kAny = Role::Count;

constexpr SyncSite kSites[] = {
    {Step::InitBarriers, kAny, CallKind::MbarrierInit},
    {Step::StartTogether, Role::Dispatch, CallKind::NamedBarrier},
    {Step::StartTogether, Role::LoadA, CallKind::NamedBarrier},
    {Step::StartTogether, Role::LoadB, CallKind::NamedBarrier},
    {Step::StartTogether, Role::Math, CallKind::NamedBarrier},
    {Step::CountClear, kAny, CallKind::Reset},
    {Step::CountTogether, kAny, CallKind::NamedBarrier},
    {Step::ClaimSlots, kAny, CallKind::Relaxed},
    {Step::ClaimTogether, kAny, CallKind::NamedBarrier},
    {Step::GridTogether, kAny, CallKind::NamedBarrier},
    {Step::GridArrive, kAny, CallKind::Release},
    {Step::GridWait, kAny, CallKind::WordWait},
    {Step::RankTogether, kAny, CallKind::NamedBarrier},
    {Step::RankSignal, kAny, CallKind::Release},
    {Step::RankWait, kAny, CallKind::WordWait},
    {Step::RankAdvance, kAny, CallKind::Reset},
    {Step::PoolTableReady, Role::Dispatch, CallKind::NamedBarrier},
    {Step::PoolTableReady, Role::LoadA, CallKind::NamedBarrier},
    {Step::PoolTableReady, Role::LoadB, CallKind::NamedBarrier},
    {Step::PoolTableReady, Role::Math, CallKind::NamedBarrier},
    {Step::PullWaitsForRingSlot, kAny, CallKind::WordWait},
    {Step::PullLoad, kAny, CallKind::MbarrierExpect},
    {Step::PullWaitsForChunk, kAny, CallKind::MbarrierWait},
    {Step::PullCommit, kAny, CallKind::BulkCommit},
    {Step::PullBufferFree, kAny, CallKind::BulkWait},
    {Step::PullFence, kAny, CallKind::Fence},
    {Step::PullStored, kAny, CallKind::BulkWait},
    {Step::PullPublishRow, kAny, CallKind::Release},
    {Step::TaskClaim, kAny, CallKind::Relaxed},
    {Step::TaskWaitsForEntry, kAny, CallKind::MbarrierWait},
    {Step::TaskPublish, kAny, CallKind::MbarrierArrive},
    {Step::TaskWait, Role::LoadB, CallKind::MbarrierWait},
    {Step::TaskWait, Role::Math, CallKind::MbarrierWait},
    {Step::TaskRelease, Role::LoadB, CallKind::MbarrierArrive},
    {Step::TaskRelease, Role::Math, CallKind::MbarrierArrive},
    {Step::LoadAWaitsForRows, kAny, CallKind::WordWait},
    {Step::LoadAWaitsForLinear1, kAny, CallKind::WordWait},
    {Step::LoadAWaitsForStage, kAny, CallKind::MbarrierWait},
    {Step::LoadAExpect, kAny, CallKind::MbarrierExpect},
    {Step::LoadBWaitsForStage, kAny, CallKind::MbarrierWait},
    {Step::LoadBExpect, kAny, CallKind::MbarrierExpect},
    {Step::MathWaitsForStage, kAny, CallKind::MbarrierWait},
    {Step::MathMmaWait, kAny, CallKind::MmaWait},
    {Step::MathFence, kAny, CallKind::Fence},
    {Step::MathReleaseStage, kAny, CallKind::MbarrierArrive},
    {Step::MathReleaseBlock, kAny, CallKind::Release},
    {Step::Linear1WaitsForRingSlot, kAny, CallKind::WordWait},
    {Step::Linear1StagingFree, kAny, CallKind::WarpgroupSync},
    {Step::Linear1Fence, kAny, CallKind::Fence},
    {Step::Linear1Together, kAny, CallKind::WarpgroupSync},
    {Step::Linear1Store, kAny, CallKind::BulkCommit},
    {Step::Linear1Stored, kAny, CallKind::BulkWait},
    {Step::Linear1Publish, kAny, CallKind::Release},
    {Step::Linear2StagingFree, kAny, CallKind::WarpgroupSync},
    {Step::MathFenceAll, kAny, CallKind::Fence},
    {Step::MathDone, kAny, CallKind::NamedBarrier},
    {Step::DispatchWaitsForMath, kAny, CallKind::NamedBarrier},
    {Step::CombineRelease, kAny, CallKind::NamedBarrier},
    {Step::CombineWait, kAny, CallKind::NamedBarrier},
    {Step::CombineLoad, kAny, CallKind::MbarrierExpect},
    {Step::CombineWaitsForRow, kAny, CallKind::MbarrierWait},
    {Step::CombineFence, kAny, CallKind::Fence},
    {Step::CombineTogether, kAny, CallKind::WarpgroupSync},
    {Step::CleanupClear, kAny, CallKind::Reset},
};

struct Operator {
  const char* name;
  MutantKind kind;
  int64_t delta;
};

constexpr Operator kDrop{"drop", MutantKind::Drop, 0};
constexpr Operator kSwap{"swap", MutantKind::Swap, 0};
constexpr Operator kOrder{"order", MutantKind::Order, 0};
constexpr Operator kScope{"scope", MutantKind::Scope, 0};
constexpr Operator kLeader{"leader", MutantKind::LeaderOnly, 0};
constexpr Operator kParity{"parity", MutantKind::Parity, 0};

std::vector<Operator> operators_of(CallKind kind) {
  switch (kind) {
    case CallKind::NamedBarrier:
    case CallKind::WarpgroupSync:
      return {
          kDrop, {"count+32", MutantKind::Count, 32}, {"count-32", MutantKind::Count, -32}, kSwap};
    case CallKind::MbarrierInit:
      return {kDrop, {"count+1", MutantKind::Count, 1}, {"count-1", MutantKind::Count, -1}};
    case CallKind::MbarrierArrive:
      return {kDrop, {"count+1", MutantKind::Count, 1}, {"count-1", MutantKind::Count, -1}, kSwap};
    case CallKind::MbarrierExpect:
      return {kDrop, {"bytes+16", MutantKind::Bytes, 16}, {"bytes-16", MutantKind::Bytes, -16}};
    case CallKind::MbarrierWait:
      return {kDrop, kParity, kSwap};
    case CallKind::WordWait:
      return {kDrop,
              {"target+1", MutantKind::Target, 1},
              {"target-1", MutantKind::Target, -1},
              kOrder,
              kScope,
              kSwap};
    case CallKind::Release:
      return {kDrop,
              {"count+1", MutantKind::Count, 1},
              {"count-1", MutantKind::Count, -1},
              kOrder,
              kScope};
    case CallKind::Relaxed:
      return {kDrop, {"count+1", MutantKind::Count, 1}, {"count-1", MutantKind::Count, -1}};
    case CallKind::Fence:
      return {kDrop, kLeader, kSwap};
    case CallKind::BulkCommit:
    case CallKind::BulkWait:
      return {kDrop, kSwap};
    case CallKind::MmaWait:
    case CallKind::Reset:
      return {kDrop};
  }
  return {};
}

RunOptions trial_options(const MutantTrial& trial) {
  RunOptions options;
  options.threads = 1;
  options.check = true;
  options.math = false;
  options.schedule = trial.schedule;
  return options;
}

}  // namespace

std::span<const SyncSite> sync_sites() { return kSites; }

std::vector<GeneratedMutant> generate_mutants() {
  std::vector<GeneratedMutant> mutants;
  for (const SyncSite& site : kSites)
    for (const Operator& op : operators_of(site.kind)) {
      GeneratedMutant m;
      m.operation = op.name;
      m.site = site;
      m.mutant = {op.kind, site.step, op.delta, 0, UINT32_MAX, site.role};
      m.id = fmt::format("{} {}{}", op.name, step_name(site.step),
                         site.role == kAny ? "" : std::string(" ") + role_name(site.role));
      mutants.push_back(std::move(m));
    }
  return mutants;
}

std::vector<MutantTrial> mutant_trials() {
  constexpr const char* kOneRank =
      R"({"shape":{"ranks":1,"experts":3,"topk":3,"hidden":256,"intermediate":128,
          "max_tokens_per_rank":80},"tokens":[80],"kernel":{"sms_per_rank":1,"stages":2},
          "launches":2})";
  constexpr const char* kTwoRanks =
      R"({"shape":{"ranks":2,"experts":4,"topk":3,"hidden":256,"intermediate":256,
          "max_tokens_per_rank":40},"kernel":{"sms_per_rank":2,"stages":2},"launches":2})";
  constexpr const char* kSkewed =
      R"({"shape":{"ranks":2,"experts":2,"topk":2,"hidden":128,"intermediate":128,
          "max_tokens_per_rank":140},"tokens":[140,3],"routing":{"kind":"hot_rank"},
          "kernel":{"sms_per_rank":2,"stages":1},"launches":2,
          "world":{"landing":"early","late_rank":1,"late_steps":400}})";
  constexpr const char* kManyExperts =
      R"({"shape":{"ranks":2,"experts":80,"topk":2,"hidden":128,"intermediate":128,
          "max_tokens_per_rank":16},"kernel":{"sms_per_rank":2}})";
  constexpr const char* kTwoChunks =
      R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":8192,"intermediate":128,
          "max_tokens_per_rank":5},"kernel":{"sms_per_rank":1}})";
  std::vector<MutantTrial> trials;
  for (const char* text :
       {kOneRank, kTwoRanks, kSkewed, kTwoChunks, plant_cases::kLapsTwoSms, kManyExperts})
    trials.push_back({parse_case(text, ""), "fifo"});
  for (const char* schedule : {"slow:math@0", "random:2", "random:3"})
    trials.push_back({parse_case(plant_cases::kLapsTwoSms, ""), schedule});
  for (const char* schedule : {"random:1", "slow:math@0", "slow:dispatch@1", "slow:load_b@0"})
    trials.push_back({parse_case(kTwoRanks, ""), schedule});
  return trials;
}

std::vector<std::string> expected_digests(const std::vector<MutantTrial>& trials) {
  std::vector<std::string> digests;
  for (const MutantTrial& trial : trials)
    digests.push_back(simulate(trial.c, trial_options(trial)).state_digest);
  return digests;
}

MutantVerdict try_mutant(const Mutant& mutant, const std::vector<MutantTrial>& trials,
                         const std::vector<std::string>& expected) {
  for (size_t i = 0; i < trials.size(); ++i) {
    const RunResult result = simulate(trials[i].c, trial_options(trials[i]), mutant,
                                      {nullptr, nullptr, kMaxPlantEvents});
    if (result.failed())
      return {true, fmt::format("{} at {}", finding_class_name(result.findings[0].kind),
                                step_name(result.findings[0].step))};
    if (result.state_digest != expected[i]) return {true, "the state differs"};
  }
  return {};
}

const char* equivalent_because(const GeneratedMutant& mutant) {
  for (const EquivalentMutant& known : equivalent_mutants())
    if (mutant.id == known.id) return known.because;
  return nullptr;
}

}  // namespace moetwin
