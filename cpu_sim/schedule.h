// A schedule as data: the policy, its seed and its deviations, read from and printed as one short
// string. scheduler.h plays it. Counter-based random numbers live here too, so that one more draw
// of one agent shifts nobody else's.
//
//   fifo  random:SEED  pct:SEED:DEPTH  slow:ROLE@RANK  timed
//   replay:BASE;DELTA=AGENT;DELTA=AGENT...    BASE: one of the above, or step, or step:SEED;
//         numbers after BASE are base 36; a choice number is the one before (at first -1) plus
//         DELTA, which is left out where it is 1
//   replay:@FILE                              a file that holds what would follow "replay:"
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetwin {

enum class SchedulePolicy : uint8_t {
  Fifo,    ///< in order of becoming runnable, each until it blocks
  Random,  ///< any runnable agent at every visible operation
  Pct,     ///< random priorities of (role, rank), with `depth` changes on the way
  Slow,    ///< fifo, but one role of one rank runs only when nothing else can
  Timed,   ///< least virtual time first
  Step,    ///< only as a base of replay: fifo whose every visible operation is a choice
};

/// At choice number `choice` (from 0) the agent `agent` runs, whatever the base policy says.
struct Deviation {
  uint64_t choice = 0;
  uint32_t agent = 0;
  friend bool operator==(const Deviation&, const Deviation&) = default;
};

constexpr uint64_t kMaxScheduleSeed = INT64_MAX;
constexpr uint32_t kMaxPctDepth = 1000;
constexpr size_t kMaxScheduleStringBytes = size_t{64} << 10;
constexpr size_t kMaxScheduleFileBytes = size_t{64} << 20;

struct Schedule {
  SchedulePolicy policy = SchedulePolicy::Fifo;
  bool seeded = false;  ///< Random, Pct, and Step with a seed: lanes and landings draw from `seed`
  uint64_t seed = 0;
  uint32_t depth = 0;                 ///< Pct
  std::string role;                   ///< Slow
  uint32_t rank = 0;                  ///< Slow
  bool replay = false;                ///< `deviations` apply (there may be none)
  std::vector<Deviation> deviations;  ///< ascending in `choice`, each choice once
  std::string file;                   ///< where a replay:@FILE was read from; empty: inline

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Reads a schedule. `roles` are the names slow: accepts (empty: any name); a relative FILE is
/// looked up in `directory` (empty: as it is). Throws InputError with one line.
Schedule parse_schedule(std::string_view text, std::span<const std::string_view> roles = {},
                        const std::string& directory = {});

/// The string that parse_schedule reads back as this schedule. With `file` set it is
/// replay:@FILE; inline text may exceed kMaxScheduleStringBytes.
std::string to_string(const Schedule& schedule);

/// to_string, but a text above kMaxScheduleStringBytes is written to `path` and becomes
/// replay:@path. Throws InputError when the file cannot be written or would be above
/// kMaxScheduleFileBytes.
std::string save_schedule(const Schedule& schedule, const std::string& path);

/// One round of a 64-bit finaliser (Stafford's variant 13): a bijection without visible structure.
constexpr uint64_t mix_bits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
  return x;
}

/// The n-th number of stream `stream` under `seed`.
constexpr uint64_t counter_random(uint64_t seed, uint64_t stream, uint64_t n) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;
  const uint64_t key = mix_bits(seed + kGolden) ^ (stream * 0xd1342543de82ef95ull);
  return mix_bits(mix_bits(key + kGolden) + n * kGolden);
}

}  // namespace moetwin
