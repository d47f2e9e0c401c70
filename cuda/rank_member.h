// One rank of a run on several cards: its card, its part of the shared memory, its share of each
// launch. It does what rank 0 asks for (rank_protocol.h), and is the same on rank 0 itself. Host
// code only.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cuda/card_launcher.h"
#include "cuda/rank_protocol.h"
#include "cuda/symmetric_memory.h"
#include "model/case.h"

namespace moetwin {

/// Asked to end instead of starting its launch (StartRequest::leaving_rank).
class RankLeaves : public std::exception {};

/// In front of a rank's layout, in the shared memory: the abort flag, and the counter of meetings.
constexpr uint64_t kControlBytes = 1024;
constexpr uint64_t kMeetCounterOffset = 128;

class RankMember {
 public:
  RankMember(const RankPlace& place, const GpuOptions& options)
      : place_(place), options_(options) {}

  /// Does what a message asks for and returns the answer to it; what goes wrong is an answer too.
  /// Throws RankLeaves alone.
  std::string handle(const std::string& message);

  // Since the last Stage.

  const CardLauncher& card() const { return *card_; }
  const Problem& problem() const { return problem_; }
  bool given_up() const { return given_up_; }
  RecordsAnswer records() const { return {card_->records(), card_->workspace().bases()}; }

  /// A rank is gone: nothing is done together any more.
  void abandon() {
    if (memory_) memory_->abandon();
  }

  /// What rank 0 had to report so far, one line each.
  const std::vector<std::string>& reports() const { return reports_; }

 private:
  std::string run(RankCommand command, MessageReader& read);
  std::string describe();
  void reach(const std::vector<CardIdentity>& cards);
  void share(const ShareRequest& request);
  void allocate(uint64_t bytes);
  void connect();
  void stage(const StageRequest& request);
  StartAnswer start(const StartRequest& request);
  std::vector<double> time(uint32_t repeats);
  void discard();
  void clear_control();
  const Case& parsed(const std::string& case_text);

  RankPlace place_;
  GpuOptions options_;
  std::unique_ptr<CardLauncher> card_;
  std::unique_ptr<SymmetricMemory> memory_;
  std::vector<uint64_t> shared_;  ///< [ranks] addresses of all ranks' memory; empty before Connect
  uint32_t meetings_ = 0;         ///< since the counter was last cleared
  std::string case_text_;
  Case case_;
  WeightCache weights_;
  Problem problem_;
  bool given_up_ = false;
  std::vector<std::string> reports_;
};

}  // namespace moetwin
