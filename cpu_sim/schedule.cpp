#include "cpu_sim/schedule.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "common/check.h"
#include "common/shape.h"
#include "model/output_file.h"

namespace moetwin {

namespace {

constexpr std::string_view kReplay = "replay:";
constexpr int kReplayBase = 36;

/// What was given, short and on one line.
std::string one_line(std::string_view text) {
  constexpr size_t kShown = 60;
  std::string shown = "'";
  for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > kShown ? "...'" : "'");
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw InputError("schedule: " + one_line(text) + ": " + why);
}

/// A number in the one spelling that is printed: digits only, no leading zero.
std::optional<uint64_t> number(std::string_view text, uint64_t limit, int base = 10) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, base);
  if (text.empty() || read.ec != std::errc{} || read.ptr != end || value > limit) return {};
  if (text.size() > 1 && text.front() == '0') return {};
  for (const char c : text)
    if (c >= 'A' && c <= 'Z') return {};
  return value;
}

std::string base36(uint64_t value) {
  char digits[16];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value, 36).ptr);
}

uint64_t parse_seed(std::string_view text, std::string_view given) {
  const auto seed = number(text, kMaxScheduleSeed);
  if (!seed) refuse(given, "SEED is not an integer from 0 to 9223372036854775807");
  return *seed;
}

void parse_pct(Schedule& schedule, std::string_view fields, std::string_view given) {
  const size_t colon = fields.find(':');
  if (colon == std::string_view::npos) refuse(given, "want pct:SEED:DEPTH");
  schedule.seed = parse_seed(fields.substr(0, colon), given);
  const auto depth = number(fields.substr(colon + 1), kMaxPctDepth);
  if (!depth) refuse(given, "DEPTH is not an integer from 0 to " + std::to_string(kMaxPctDepth));
  schedule.depth = static_cast<uint32_t>(*depth);
}

void parse_slow(Schedule& schedule, std::string_view fields, std::string_view given,
                std::span<const std::string_view> roles) {
  const size_t at = fields.find('@');
  if (at == std::string_view::npos || at == 0) refuse(given, "want slow:ROLE@RANK");
  schedule.role = fields.substr(0, at);
  if (!roles.empty() && std::find(roles.begin(), roles.end(), schedule.role) == roles.end()) {
    std::string names;
    for (const std::string_view role : roles)
      names += (names.empty() ? "" : ", ") + std::string(role);
    refuse(given, "ROLE is none of " + names);
  }
  const auto rank = number(fields.substr(at + 1), kMaxRanks - 1);
  if (!rank) refuse(given, "RANK is not an integer from 0 to " + std::to_string(kMaxRanks - 1));
  schedule.rank = static_cast<uint32_t>(*rank);
}

/// A policy without replay. `step` is a base and no schedule of its own.
Schedule parse_policy(std::string_view text, std::span<const std::string_view> roles,
                      bool is_base) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool has_fields = colon != std::string_view::npos;
  const std::string_view fields = has_fields ? text.substr(colon + 1) : std::string_view{};
  Schedule schedule;
  if (name == "fifo" || name == "timed") {
    if (has_fields) refuse(text, std::string(name) + " takes nothing after its name");
    schedule.policy = name == "fifo" ? SchedulePolicy::Fifo : SchedulePolicy::Timed;
  } else if (name == "random") {
    schedule.policy = SchedulePolicy::Random;
    schedule.seeded = true;
    schedule.seed = parse_seed(fields, text);
  } else if (name == "pct") {
    schedule.policy = SchedulePolicy::Pct;
    schedule.seeded = true;
    parse_pct(schedule, fields, text);
  } else if (name == "slow") {
    schedule.policy = SchedulePolicy::Slow;
    parse_slow(schedule, fields, text, roles);
  } else if (name == "step" && is_base) {
    schedule.policy = SchedulePolicy::Step;
    schedule.seeded = has_fields;
    if (has_fields) schedule.seed = parse_seed(fields, text);
  } else if (is_base) {
    refuse(text, "the base of a replay is none of fifo, random, pct, slow, timed, step");
  } else {
    refuse(text, "the policy is none of fifo, random, pct, slow, timed, replay");
  }
  return schedule;
}

void parse_deviation(Schedule& schedule, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse(text, "a deviation is DELTA=AGENT");
  const uint64_t next = schedule.deviations.empty() ? 0 : schedule.deviations.back().choice + 1;
  uint64_t skipped = 0;
  if (equals != 0) {
    const auto delta = number(text.substr(0, equals), kMaxScheduleSeed - next, kReplayBase);
    if (!delta || *delta == 0) refuse(text, "DELTA is not a positive number in base 36");
    skipped = *delta - 1;
  }
  const auto agent = number(text.substr(equals + 1), UINT32_MAX, kReplayBase);
  if (!agent) refuse(text, "AGENT is not a 32-bit number in base 36");
  schedule.deviations.push_back({next + skipped, static_cast<uint32_t>(*agent)});
}

/// What follows "replay:" or stands in a file.
Schedule parse_replay(std::string_view text, std::span<const std::string_view> roles) {
  size_t semicolon = text.find(';');
  Schedule schedule = parse_policy(text.substr(0, semicolon), roles, true);
  schedule.replay = true;
  while (semicolon != std::string_view::npos) {
    text.remove_prefix(semicolon + 1);
    semicolon = text.find(';');
    parse_deviation(schedule, text.substr(0, semicolon));
  }
  return schedule;
}

std::string read_replay_file(const std::string& file, const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path path = directory.empty() ? fs::path(file) : fs::path(directory) / file;
  std::error_code error;
  if (!fs::exists(path, error)) refuse("replay:@" + file, "no such file");
  if (!fs::is_regular_file(path, error)) refuse("replay:@" + file, "is not a regular file");
  const uintmax_t bytes = fs::file_size(path, error);
  if (!error && bytes > kMaxScheduleFileBytes)
    refuse("replay:@" + file, "the file holds " + std::to_string(bytes) + " bytes, the limit is " +
                                  std::to_string(kMaxScheduleFileBytes));
  std::ifstream stream(path, std::ios::binary);
  std::string text(error ? 0 : static_cast<size_t>(bytes), '\0');
  if (error || !stream.read(text.data(), static_cast<std::streamsize>(text.size())))
    refuse("replay:@" + file, "the file cannot be read");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string policy_string(const Schedule& schedule) {
  const std::string seed = std::to_string(schedule.seed);
  switch (schedule.policy) {
    case SchedulePolicy::Fifo:
      return "fifo";
    case SchedulePolicy::Random:
      return "random:" + seed;
    case SchedulePolicy::Pct:
      return "pct:" + seed + ":" + std::to_string(schedule.depth);
    case SchedulePolicy::Slow:
      return "slow:" + schedule.role + "@" + std::to_string(schedule.rank);
    case SchedulePolicy::Timed:
      return "timed";
    case SchedulePolicy::Step:
      return schedule.seeded ? "step:" + seed : "step";
  }
  MOETWIN_CHECK(false);
  return {};
}

/// Base and deviations: what follows "replay:".
std::string replay_text(const Schedule& schedule) {
  std::string text = policy_string(schedule);
  uint64_t next = 0;
  for (const Deviation& deviation : schedule.deviations) {
    MOETWIN_CHECK(deviation.choice >= next);
    text += ';';
    if (deviation.choice != next) text += base36(deviation.choice - next + 1);
    text += '=';
    text += base36(deviation.agent);
    next = deviation.choice + 1;
  }
  return text;
}

}  // namespace

Schedule parse_schedule(std::string_view text, std::span<const std::string_view> roles,
                        const std::string& directory) {
  if (text.size() > kMaxScheduleStringBytes)
    refuse(text, "it is longer than " + std::to_string(kMaxScheduleStringBytes) +
                     " bytes; give it as replay:@FILE");
  if (text.substr(0, kReplay.size()) != kReplay) return parse_policy(text, roles, false);
  const std::string_view rest = text.substr(kReplay.size());
  if (rest.substr(0, 1) != "@") return parse_replay(rest, roles);
  const std::string file(rest.substr(1));
  Schedule schedule = parse_replay(read_replay_file(file, directory), roles);
  schedule.file = file;
  return schedule;
}

std::string to_string(const Schedule& schedule) {
  if (!schedule.replay) return policy_string(schedule);
  if (!schedule.file.empty()) return "replay:@" + schedule.file;
  return std::string(kReplay) + replay_text(schedule);
}

std::string save_schedule(const Schedule& schedule, const std::string& path) {
  std::string text = to_string(schedule);
  if (text.size() <= kMaxScheduleStringBytes) return text;
  text.erase(0, kReplay.size());
  if (text.size() > kMaxScheduleFileBytes)
    throw InputError("schedule: a replay of " + std::to_string(text.size()) +
                     " bytes is above the limit of " + std::to_string(kMaxScheduleFileBytes));
  write_file(path, text + '\n', "schedule");
  return "replay:@" + path;
}

}  // namespace moetwin
