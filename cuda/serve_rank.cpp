// The life of a rank other than 0, from the rendezvous to the report it ends with.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cuda/gpu_group.h"
#include "cuda/group_findings.h"
#include "cuda/rank_member.h"
#include "cuda/ranks/rendezvous.h"

namespace moetwin {
namespace {

constexpr double kAnswerSeconds = 60;

/// What this rank alone can say when rank 0 is gone.
RankReport report_alone(const RankPlace& place, const RankMember& member,
                        const std::string& reason) {
  RankReport report{true, member.reports()};
  report.lines.push_back(fmt::format("rank 0 is not there: {}", reason));
  if (!member.given_up()) return report;
  std::vector<std::string> absent(place.ranks);
  absent[0] = reason;
  std::vector<RecordsAnswer> records(place.ranks);
  records[place.rank] = member.records();
  for (const Finding& finding :
       group_findings(member.card().args(), member.card().workspace().bases(), records, absent,
                      member.card().limit_seconds()))
    if (finding.kind != FindingClass::Residency) report.lines.push_back(finding.text);
  return report;
}

bool is_end(const std::string& message) {
  MessageReader read(message);
  return read.value<RankCommand>() == RankCommand::End;
}

}  // namespace

RankReport serve_rank(const RankPlace& place, const GpuOptions& options) {
  // The connection goes first, so that the others know at once when this rank leaves them.
  RankMember member(place, options);
  RankPeer hub(place, seconds_from_now(kDefaultRendezvousSeconds));
  try {
    for (;;) {
      // Ends with rank 0's process at the latest: its end closes the connection.
      const std::string message = hub.receive(kNoDeadline);
      if (is_end(message)) return {!member.reports().empty(), member.reports()};
      hub.send(member.handle(message), seconds_from_now(kAnswerSeconds));
    }
  } catch (const RankLeaves&) {
    member.abandon();
    return {true,
            {fmt::format("rank {} leaves before its launch, as it was asked to", place.rank)}};
  } catch (const ChannelError& error) {
    member.abandon();
    return report_alone(
        place, member,
        error.fault() == ChannelFault::Closed ? "its process has ended" : error.what());
  }
}

}  // namespace moetwin
