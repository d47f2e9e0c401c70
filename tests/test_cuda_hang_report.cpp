#include <doctest/doctest.h>

#include <vector>

#include "cuda/hang_report.h"

namespace moetwin {
namespace {

/// Two ranks of two SMs, BLOCK_M 64: five agents a CTA.
struct Scene {
  KernelArgs args;
  std::vector<WaitRecord> records;
  std::vector<uint64_t> bases = {0x10000000, 0x20000000};

  Scene() {
    const Shape shape = {2, 4, 2, 256, 128, 8};
    KernelOptions options;
    options.sms_per_rank = 2;
    const PlanResult planned = make_plan(shape, options, false, true);
    REQUIRE(!planned.error);
    args = {shape, planned.plan, make_layout(shape, planned.plan), 0.0f};
    records.resize(2 * 2 * kAgentsPerCta);
  }

  WaitRecord& waits(uint32_t rank, uint32_t sm, Role role, uint32_t agent, Step step,
                    WaitKind kind) {
    WaitRecord& r = records[(rank * 2 + sm) * kAgentsPerCta + agent_place(role, agent)];
    r = WaitRecord{};
    r.filled = 1;
    r.rank = rank;
    r.sm = sm;
    r.role = role;
    r.agent = static_cast<uint16_t>(agent);
    r.step = step;
    r.kind = kind;
    return r;
  }

  std::vector<Finding> explain() const { return explain_records(args, records, bases, 10); }
};

bool says(const std::string& text, const char* part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("cuda: agents of a CTA have records of their own") {
  std::vector<uint32_t> seen(kAgentsPerCta, 0);
  for (uint32_t warp = 0; warp < kDispatchWarps; ++warp) ++seen[agent_place(Role::Dispatch, warp)];
  ++seen[agent_place(Role::LoadA, 0)];
  ++seen[agent_place(Role::LoadB, 0)];
  for (uint32_t i = 0; i < kMaxMathWarpgroups; ++i) ++seen[agent_place(Role::Math, i)];
  for (const uint32_t count : seen) CHECK(count == 1);
}

TEST_CASE("cuda: a wait on a word is told by region, element and rank, wanted and got") {
  Scene scene;
  WaitRecord& r = scene.waits(1, 0, Role::LoadA, 0, Step::LoadAWaitsForRows, WaitKind::Word);
  r.condition = Awaited::Kind::AtLeast;
  r.wanted = 64;
  r.got = 12;
  r.first = 1;
  r.address = scene.bases[1] + scene.args.layout.offset(Region::XFull);
  const auto findings = scene.explain();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == FindingClass::Deadlock);
  CHECK(findings[0].step == Step::LoadAWaitsForRows);
  CHECK(findings[0].rank == 1);
  CHECK(findings[0].role == "load_a 0");
  says(findings[0].text, "rank 1 SM 0 load_a 0 waits for all rows of a pool block");
  says(findings[0].text, "XFull[0] of rank 1, wanted at least 64, is 12");
  says(findings[0].text, "given up after 10 s");
  says(findings[0].other, "rank 1 SM 0 dispatch 0 has left the kernel");
}

TEST_CASE("cuda: a barrier names those that are not there") {
  Scene scene;
  scene.waits(0, 1, Role::Dispatch, 0, Step::DispatchWaitsForMath, WaitKind::NamedBarrier).object =
      static_cast<uint32_t>(NamedBarrier::MathDone);
  scene.waits(0, 1, Role::Dispatch, 1, Step::DispatchWaitsForMath, WaitKind::NamedBarrier).object =
      static_cast<uint32_t>(NamedBarrier::MathDone);
  WaitRecord& math =
      scene.waits(0, 1, Role::Math, 0, Step::MathWaitsForStage, WaitKind::MbarrierPhase);
  math.object = scene.args.plan.full(1).index;
  scene.waits(0, 1, Role::LoadA, 0, Step::LoadAWaitsForStage, WaitKind::MbarrierPhase).object =
      scene.args.plan.empty(0).index;
  const auto findings = scene.explain();
  REQUIRE(findings.size() == 3);
  // Load B has left, so the wait of math can never end: it comes first.
  CHECK(findings[0].step == Step::MathWaitsForStage);
  says(findings[0].text, "full[1]");
  says(findings[0].other, "load_b 0 has left the kernel");
  const Finding& barrier =
      findings[1].step == Step::DispatchWaitsForMath ? findings[1] : findings[2];
  says(barrier.text, "named barrier MathDone");
  says(barrier.text, "1 more agents of rank 0 wait at this step");
  CHECK(barrier.other == "rank 0 SM 1 math 0 waits for a full stage");
}

TEST_CASE("cuda: at the rank barrier only ranks that have not come are named") {
  Scene scene;
  WaitRecord& r = scene.waits(0, 0, Role::Dispatch, 0, Step::RankWait, WaitKind::Word);
  r.address = scene.bases[0] + scene.args.layout.offset(Region::RankBarrierSignal) + 4;
  r.condition = Awaited::Kind::Equal;
  r.wanted = 2;
  r.got = 1;
  scene.waits(1, 0, Role::Dispatch, 0, Step::GridWait, WaitKind::Word).address =
      scene.bases[1] + scene.args.layout.offset(Region::GridBarrier);
  for (const Finding& finding : scene.explain()) {
    if (finding.step != Step::RankWait) continue;
    says(finding.text, "RankBarrierSignal[1] of rank 0, wanted 2, is 1");
    CHECK(finding.other == "rank 1 SM 0 dispatch 0 waits for the grid barrier");
    return;
  }
  FAIL("no finding of the rank barrier");
}

TEST_CASE("cuda: an index past its table is an overflow and comes first") {
  Scene scene;
  scene.waits(0, 0, Role::Dispatch, 1, Step::GridTogether, WaitKind::NamedBarrier).object = 1;
  WaitRecord& r = scene.waits(0, 1, Role::Dispatch, 0, Step::WriteIndex, WaitKind::TableBound);
  r.object = 3;
  r.wanted = 16;
  r.got = 16;
  r.first = 1;
  const auto findings = scene.explain();
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == FindingClass::Overflow);
  says(findings[0].text, "index 16 of 16 was refused before the write (expert 3)");
}

}  // namespace moetwin
