// What rank 0 asks of every rank of a run on several cards, and how a rank answers. One place for
// both ends; carrying the bytes is ranks/rendezvous.h's business. Host code only.
//
//   Describe, Reach, Share    once: who has which card, whether they reach each other, how memory
//                             is shared
//   Allocate, Connect         when the symmetric buffers must grow
//   Stage, Start              a launch; Time in place of Start where it is measured
//   Records, Report, Discard  a launch that was given up; Discard also after a broken rule
//   End                       the rank leaves
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/card_identity.h"
#include "cuda/ranks/message.h"
#include "cuda/wait_record.h"

namespace moetwin {

enum class RankCommand : uint32_t {
  Describe,
  Reach,
  Share,
  Allocate,
  Connect,
  Stage,
  Start,
  Time,
  Records,
  Report,
  Discard,
  End,
};

/// How a rank's part of a command went.
enum class RankStatus : uint32_t { Fine, BadInput, NoDevice, NoMemorySharing, Failed };

/// A rank is missing or failed outside a launch: one line that names it.
class GpuGroupError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How the ranks share memory.
struct ShareRequest {
  bool through_nccl = false;
  std::string name;         ///< NCCL's id, or the run's own name
  double limit_factor = 1;  ///< on the longest wait: processes that share a card take turns

  std::string message() const;
  static ShareRequest read(MessageReader& read);
};

struct StageRequest {
  std::string case_text;  ///< its paths are absolute
  uint64_t launch = 0;
  bool unsafe_ring = false;
  bool taps = true;
  uint8_t poison = 0;

  std::string message() const;
  static StageRequest read(MessageReader& read);
};

/// A rank that starts late waits on the host; one that leaves ends instead of starting.
struct StartRequest {
  uint32_t late_rank = UINT32_MAX;
  uint32_t leaving_rank = UINT32_MAX;
  double late_seconds = 0;

  std::string message() const;
};

struct StartAnswer {
  int64_t started;  ///< nanoseconds of the host's steady clock
  double milliseconds;
  bool given_up;
};

/// What a rank's agents left behind, and where that rank saw the buffers it speaks of.
struct RecordsAnswer {
  std::vector<WaitRecord> records;
  std::vector<uint64_t> bases;

  std::string payload() const;
  static RecordsAnswer read(MessageReader& read);
};

MessageWriter command_message(RankCommand command);
std::string cards_message(const std::vector<CardIdentity>& cards);
std::vector<CardIdentity> read_cards(MessageReader& read);

/// An answer: its status, why where it is not Fine, and what was asked for.
std::string fine_answer(const std::string& payload = "");
/// By the type of the exception being handled.
std::string failed_answer();

}  // namespace moetwin
