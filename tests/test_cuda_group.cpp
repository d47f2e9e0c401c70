#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "cuda/group_findings.h"
#include "cuda/rank_member.h"

namespace moetwin {
namespace {

constexpr uint32_t kSms = 2;

KernelArgs two_ranks() {
  const Shape shape = {2, 4, 2, 256, 128, 8};
  KernelOptions options;
  options.sms_per_rank = kSms;
  const PlanResult planned = make_plan(shape, options, false, true);
  REQUIRE(!planned.error);
  return {shape, planned.plan, make_layout(shape, planned.plan), 0.0f};
}

/// Rank `rank`'s dispatch warp 0 waits at the rank barrier, the buffers seen at `bases`.
RecordsAnswer waits_for_ranks(const KernelArgs& args, uint32_t rank, std::vector<uint64_t> bases) {
  RecordsAnswer answer{std::vector<WaitRecord>(kSms * kAgentsPerCta), std::move(bases)};
  WaitRecord& record = answer.records[agent_place(Role::Dispatch, 0)];
  record.filled = 1;
  record.first = 1;
  record.rank = rank;
  record.role = Role::Dispatch;
  record.step = Step::RankWait;
  record.kind = WaitKind::Word;
  record.condition = Awaited::Kind::Equal;
  record.wanted = 2;
  record.got = 1;
  record.address = answer.bases[rank] + args.layout.offset(Region::RankBarrierSignal) + 4;
  return answer;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cuda: a rank that is not there is named by whoever waits for it, with how it ended") {
  const KernelArgs args = two_ranks();
  const std::vector<uint64_t> bases = {0x10000000, 0x20000000};
  const std::vector<Finding> findings = group_findings(
      args, bases, {waits_for_ranks(args, 0, bases), {}}, {"", "its process has ended"}, 10);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == FindingClass::Deadlock);
  CHECK(findings[0].step == Step::RankWait);
  CHECK(findings[0].rank == 0);
  CHECK(findings[0].other == "rank 1 is not there: its process has ended");
  CHECK(findings[1].kind == FindingClass::Residency);
  CHECK(findings[1].rank == 1);
}

TEST_CASE("cuda: a word is told by region and rank though every rank sees it at other addresses") {
  const KernelArgs args = two_ranks();
  const std::vector<uint64_t> here = {0x10000000, 0x20000000};
  const std::vector<uint64_t> there = {0x70000000, 0x60000000};
  const std::vector<Finding> findings =
      group_findings(args, here, {{}, waits_for_ranks(args, 1, there)}, {"", ""}, 10);
  REQUIRE(findings.size() == 1);
  CHECK(has(findings[0].text, "RankBarrierSignal[1] of rank 1, wanted 2, is 1"));
  CHECK(has(findings[0].other, "rank 0 SM 0 dispatch 0 has left the kernel"));
}

TEST_CASE("cuda: a launch that was given up is never without a finding") {
  const KernelArgs args = two_ranks();
  const std::vector<Finding> findings = group_findings(args, {0, 0}, {{}, {}}, {"", ""}, 10);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == FindingClass::Deadlock);
}

TEST_CASE("cuda: only a rank that starts noticeably after the first is noted as slow") {
  const int64_t second = 1'000'000'000;
  const std::vector<Finding> notes = late_starts(
      {{5 * second + second / 100, 1, false}, {5 * second, 1, false}, {6 * second, 1, false}});
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].kind == FindingClass::Slow);
  CHECK(notes[0].rank == 2);
  CHECK(has(notes[0].text, "rank 2 started its launch 1.00 s after rank 1"));
}

TEST_CASE("cuda: a request survives its way to another rank") {
  const StageRequest request{"{}", 3, true, false, 17};
  const std::string message = request.message();
  MessageReader read(message);
  CHECK(read.value<RankCommand>() == RankCommand::Stage);
  const StageRequest got = StageRequest::read(read);
  CHECK(got.case_text == "{}");
  CHECK(got.launch == 3);
  CHECK(got.unsafe_ring);
  CHECK(!got.taps);
  CHECK(got.poison == 17);
  CHECK(read.at_end());
}

TEST_CASE("cuda: what goes wrong on a rank is an answer that says of which kind it is") {
  const auto status = [](const auto& error) {
    try {
      throw error;
    } catch (...) {
      const std::string answer = failed_answer();
      MessageReader read(answer);
      return read.value<RankStatus>();
    }
  };
  CHECK(status(InputError("")) == RankStatus::BadInput);
  CHECK(status(NoCudaDevice("")) == RankStatus::NoDevice);
  CHECK(status(SymmetricMemoryError("")) == RankStatus::NoMemorySharing);
  CHECK(status(CudaError("")) == RankStatus::Failed);
  // A message that is none is answered too.
  RankMember member({0, 2, 0, "", 0}, {});
  const std::string answer = member.handle("x");
  MessageReader read(answer);
  CHECK(read.value<RankStatus>() == RankStatus::Failed);
}

TEST_CASE("cuda: ranks that have the same card are seen, whatever it is called") {
  CHECK(!share_a_card({{"h", "0000:01:00.0", "a"}, {"h", "0000:02:00.0", "a"}}));
  CHECK(share_a_card(
      {{"h", "0000:01:00.0", "a"}, {"h", "0000:02:00.0", "a"}, {"h", "0000:01:00.0", "b"}}));
  const std::string why = why_unreachable(0, 0, {{"h", "1", "a"}, {"other", "2", "a"}});
  CHECK(why == "rank 1 is on another host than rank 0; a run is on the cards of one");
}

}  // namespace moetwin
