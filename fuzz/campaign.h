// A fuzzing campaign: generations of cases, each case drawn or changed from one that reached
// something new, judged on both sides; findings kept once a cause. What it does follows from its
// options alone: not from threads, processes, interruptions or time (which only ends it). One case
// is differential.h's business, what lies on disk campaign_files.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fuzz/differential.h"
#include "fuzz/peers.h"
#include "fuzz/profile.h"
#include "fuzz/signals.h"
#include "model/case.h"

namespace moetwin {

/// Cases between two looks at what all have reached. Part of what a seed means.
constexpr uint64_t kGeneration = 256;

struct CampaignOptions {
  uint64_t seed = 1;
  uint64_t cases = 0;       ///< in all, those before a resume included; 0: until `seconds` are over
  double seconds = 0;       ///< 0: no limit; checked between generations
  uint32_t jobs = 1;        ///< cases at a time
  bool wide = false;        ///< wide_profile(), else small_profile()
  bool feedback = true;     ///< false: every case is drawn afresh
  double check = 0.05;      ///< share of cases that the checker watches
  double relations = 0.05;  ///< share of cases held to a relation as well
  std::string plant;        ///< switched on in every case; the generator knows nothing of it
  bool first_only = false;  ///< end with the generation of the first finding
  FuzzSide left{"sim"};
  FuzzSide right{"naive"};
  bool math = true;
  std::string out;  ///< where findings and the state go; empty: nowhere
};

struct CampaignFinding {
  Cause cause;
  uint64_t index = 0;  ///< of the first case with it
  uint64_t times = 0;  ///< cases with it
  std::string draws;   ///< repeats the case (choices.h)
  std::string text;    ///< the first finding in words, `other` behind it
  bool checked = false;
  std::string file;  ///< name of the case file in findings/
};

/// All that decides how a campaign goes on.
struct CampaignState {
  uint64_t next = 0;  ///< index of the next case: as many are done
  uint64_t rows = 0;
  uint64_t checked = 0;
  uint64_t related = 0;
  double seconds = 0;
  Signals signals;
  std::vector<std::vector<uint64_t>> corpus;  ///< draws that reached something new, in that order
  std::map<Cause, CampaignFinding> findings;
};

/// Case `index` of a campaign in the state that its generation began with.
struct PlannedCase {
  Case c;
  std::vector<uint64_t> draws;
  bool check = false;
  std::optional<Relation> relation;
  uint64_t relation_seed = 0;
};
PlannedCase plan_case(const CampaignOptions& options, const CampaignState& state, uint64_t index);

/// Goes on from `state` to the end the options set. `progress` is called after each generation, and
/// from one thread only. Throws InputError for a plant that is none or files that cannot be
/// written; what a side of one's own throws passes, files and state being as after the last
/// generation.
void run_campaign(const CampaignOptions& options, Peers& peers, CampaignState& state,
                  const std::function<void(const CampaignState&)>& progress);

}  // namespace moetwin
