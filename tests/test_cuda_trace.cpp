#include <doctest/doctest.h>

#include <string>

#include "common/check.h"
#include "cuda/card_trace.h"
#include "cuda/variants.h"
#include "model/trace.h"
#include "tests/trace_reader.h"

namespace moetwin {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;

KernelArgs one_rank_of_two_sms() {
  const Shape shape = {1, 2, 1, 128, 128, 8};
  KernelOptions options;
  options.sms_per_rank = 2;
  const PlanResult planned = make_plan(shape, options, false, true);
  REQUIRE(!planned.error);
  return {shape, planned.plan, make_layout(shape, planned.plan), 0.0f};
}

TraceEvent event(uint64_t time, uint16_t sm, Role role, TraceKind kind, Step step, TraceObject what,
                 uint64_t object, uint32_t value = 0) {
  return {time, object, value, 0, sm, static_cast<uint8_t>(agent_place(role, 0)), kind, step, what};
}

}  // namespace

TEST_CASE("cuda: logs of agents become one order in which a cause stands before its effect") {
  const KernelArgs args = one_rank_of_two_sms();
  const uint64_t word = kBase + args.layout.offset(Region::XFull) + 4;
  std::vector<std::vector<TraceEvent>> logs(2 * kAgentsPerCta);
  auto& waits = logs[agent_place(Role::LoadA, 0)];
  waits = {
      event(100, 0, Role::LoadA, TraceKind::Begin, Step::LoadAWaitsForRows, TraceObject::Word,
            word),
      // At the same tick of the clock as the arrival that ended it.
      event(200, 0, Role::LoadA, TraceKind::End, Step::LoadAWaitsForRows, TraceObject::Word, word)};
  logs[kAgentsPerCta] = {event(200, 1, Role::Dispatch, TraceKind::Arrive, Step::PullPublishRow,
                               TraceObject::Word, word, 64)};
  CardTrace trace;
  merge_logs(args, {kBase}, logs, trace);
  REQUIRE(trace.events.size() == 4);
  CHECK(trace.events[0].kind == TraceKind::Launch);
  CHECK(trace.events[2].kind == TraceKind::Arrive);
  CHECK(trace.events[3].kind == TraceKind::End);
  CHECK(trace.events[2].object == word_id(0, static_cast<uint32_t>(Region::XFull), 4));

  const ShownTrace shown = read_trace(encode_trace(trace.launches, trace.events));
  uint64_t arrows = 0;
  int64_t occupied = 0;
  for (const ShownEvent& e : shown.events) {
    arrows += e.flows_in.size();
    if (e.track == shown.counter_track(0, "pool ring, slots in use")) occupied = e.counter;
  }
  CHECK(arrows == 1);
  CHECK(occupied == 1);
}

TEST_CASE("cuda: an agent's own order outranks its clock") {
  const KernelArgs args = one_rank_of_two_sms();
  std::vector<std::vector<TraceEvent>> logs(2 * kAgentsPerCta);
  logs[0] = {event(50, 0, Role::Dispatch, TraceKind::Begin, Step::GridTogether,
                   TraceObject::NamedBarrier, 1),
             event(40, 0, Role::Dispatch, TraceKind::End, Step::GridTogether,
                   TraceObject::NamedBarrier, 1)};
  CardTrace trace;
  merge_logs(args, {kBase}, logs, trace);
  REQUIRE(trace.events.size() == 3);
  CHECK(trace.events[1].kind == TraceKind::Begin);
  CHECK(trace.events[2].time == 50);
}

TEST_CASE("cuda: options without a kernel variant are refused with the list of those built") {
  KernelOptions kernel;
  for (const uint32_t block_m : kBuiltBlockM) {
    kernel.block_m = block_m;
    CHECK_NOTHROW(check_built(kernel));
  }
  kernel.block_m = 192;
  std::string said;
  try {
    check_built(kernel);
  } catch (const InputError& error) {
    said = error.what();
  }
  CHECK(said == "kernel.block_m: 192 is no variant of the kernel; built are 64, 128");
}

}  // namespace moetwin
