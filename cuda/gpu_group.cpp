#include "cuda/gpu_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/check.h"
#include "cuda/group_findings.h"
#include "cuda/rank_member.h"
#include "cuda/ranks/child_processes.h"
#include "cuda/ranks/rendezvous.h"

namespace moetwin {
namespace {

/// Longest answer to what only asks or exchanges; making CUDA's context takes seconds.
constexpr double kAnswerSeconds = 90;
/// Weights and inputs are made on the host, and copied.
constexpr double kStageSeconds = 900;
/// Beyond the waits of a launch: starting it, and its arithmetic.
constexpr double kLaunchSeconds = 90;
/// A process that was let go takes its communicator down.
constexpr double kLeaveSeconds = 15;

/// The shared memory starts at this size and doubles while it is small: connecting costs more than
/// memory does.
constexpr uint64_t kFirstBytes = uint64_t{32} << 20;
constexpr uint64_t kDoublingBytes = uint64_t{1} << 30;

uint64_t rounded_up(uint64_t bytes) {
  uint64_t size = kFirstBytes;
  while (size < bytes && size < kDoublingBytes) size *= 2;
  return std::max(size, bytes);
}

std::string unique_name() {
  return fmt::format("{}-{:x}", ::getpid(),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Rank 0's answer to itself and the others' answers to it, read as one.
std::string payload_of(uint32_t rank, const RankAnswer& answer) {
  if (!answer.came) throw GpuGroupError(fmt::format("rank {} is not there: {}", rank, answer.why));
  MessageReader read(answer.message);
  const RankStatus status = read.value<RankStatus>();
  const std::string why = read.text();
  const std::string text = rank == 0 ? why : fmt::format("{} (rank {})", why, rank);
  switch (status) {
    case RankStatus::Fine:
      return answer.message.substr(sizeof(RankStatus) + sizeof(uint64_t) + why.size());
    case RankStatus::BadInput:
      throw InputError(text);
    case RankStatus::NoDevice:
      throw NoCudaDevice(text);
    case RankStatus::NoMemorySharing:
      throw SymmetricMemoryError(text);
    default:
      throw GpuGroupError(fmt::format("rank {}: {}", rank, why));
  }
}

}  // namespace

GpuGroupOptions group_of(uint32_t ranks) {
  GpuGroupOptions options;
  options.place = {0, ranks, 0, "127.0.0.1", 0};
  return options;
}

class GpuGroup::Impl {
 public:
  explicit Impl(const GpuGroupOptions& options) : options_(options), hub_(options.place) {
    member_.emplace(own_place(options), options.gpu);
    if (options.start_processes) start_processes();
    hub_.accept_all(seconds_from_now(options.rendezvous_seconds),
                    [this] { return children_.first_ended(); });
    std::vector<CardIdentity> cards;
    for (const std::string& payload : ask(command_message(RankCommand::Describe).bytes())) {
      MessageReader read(payload);
      CardIdentity card{read.text(), read.text(), read.text()};
      const bool usable = read.value<bool>();
      const std::string text = read.text();
      if (!usable && nccl_missing_.empty()) nccl_missing_ = text;
      cards.push_back(std::move(card));
    }
    ask(cards_message(cards));
    if (share_a_card(cards)) {
      nccl_missing_ = "two ranks have the same card, which NCCL refuses";
      limit_factor_ = kSharedCardLimitFactor;
    }
    if (options.without_nccl) nccl_missing_ = "NCCL is not wanted";
    through_nccl_ = nccl_missing_.empty();
    if (through_nccl_)
      share_through_nccl();
    else
      share_through_handles(nccl_missing_);
  }

  ~Impl() {
    hub_.send(command_message(RankCommand::End).bytes(), seconds_from_now(kLeaveSeconds));
    // A communicator is taken down by all its ranks together, if they are there.
    if (!broken_.empty()) member_->abandon();
    member_.reset();
    children_.wait_all(seconds_from_now(broken_.empty() ? kLeaveSeconds : 0));
  }

  const RankMember& member() const { return *member_; }
  const std::vector<std::string>& notes() const { return notes_; }

  void check(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring) const {
    if (shape.ranks != ranks())
      throw InputError(
          fmt::format("shape.ranks: {} is not {}, the number of processes (--gpus, WORLD_SIZE)",
                      shape.ranks, ranks()));
    member_->card().plan(shape, kernel, unsafe_ring, true, 1);
  }

  GpuLaunch launch(const Case& c, size_t index, const GpuLaunchOptions& options) {
    stage(c, index, options);
    StartRequest request;
    if (c.world.late_rank) request.late_rank = *c.world.late_rank;
    request.late_seconds = static_cast<double>(c.world.late_steps) * 1e-6;
    if (options_.leaving_rank) request.leaving_rank = *options_.leaving_rank;
    const double seconds = member_->card().limit_seconds() + request.late_seconds + kLaunchSeconds;
    const std::vector<RankAnswer> answers = all_do(request.message(), seconds);
    GpuLaunch out;
    std::vector<StartAnswer> starts(ranks());
    std::vector<std::string> absent(ranks());
    bool given_up = false;
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      if (!answers[rank].came) {
        absent[rank] = why_gone(rank, answers[rank]);
        broken_ = fmt::format("rank {} is not there: {}", rank, absent[rank]);
        continue;
      }
      const std::string payload = payload_of(rank, answers[rank]);
      MessageReader read(payload);
      starts[rank] = read.value<StartAnswer>();
      out.milliseconds = std::max(out.milliseconds, starts[rank].milliseconds);
      given_up |= starts[rank].given_up;
    }
    if (given_up || !broken_.empty()) {
      out.findings = report(absent);
      return out;
    }
    collect(starts, out);
    return out;
  }

  std::vector<double> time(const Case& c, uint32_t repeats) {
    check(c.launches[0].shape, c.kernel, false);
    stage(c, 0, {false, false, 0});
    MessageWriter request = command_message(RankCommand::Time);
    const double seconds = member_->card().limit_seconds() + kLaunchSeconds;
    std::vector<double> slowest(repeats, 0);
    for (const std::string& payload : ask(request.value(repeats).bytes(), seconds)) {
      MessageReader read(payload);
      const std::vector<double> times = read.values<double>();
      for (uint32_t i = 0; i < repeats && i < times.size(); ++i)
        slowest[i] = std::max(slowest[i], times[i]);
    }
    return slowest;
  }

 private:
  static RankPlace own_place(const GpuGroupOptions& options) {
    RankPlace place = options.place;
    if (options.start_processes)
      place.local_rank = options.cards.empty() ? 0 : options.cards.front();
    return place;
  }

  uint32_t ranks() const { return hub_.ranks(); }

  void start_processes() {
    for (uint32_t rank = 1; rank < ranks(); ++rank) {
      ChildCommand command = this_program();
      const uint32_t card = options_.cards.empty() ? rank : options_.cards[rank];
      command.environment =
          environment_of({rank, ranks(), card, options_.place.address, hub_.port()});
      children_.start(rank, command);
    }
  }

  std::string why_gone(uint32_t rank, const RankAnswer& answer) {
    const std::string ended = children_.ended(rank);
    return ended.empty() ? answer.why : ended;
  }

  /// Every rank does it, this one too: [ranks] answers.
  std::vector<RankAnswer> all_do(const std::string& message, double seconds) {
    if (!broken_.empty()) throw GpuGroupError(broken_);
    const Deadline deadline = seconds_from_now(seconds);
    hub_.send(message, deadline);
    const std::string own = member_->handle(message);
    std::vector<RankAnswer> answers = hub_.receive(deadline);
    answers[0] = {true, own, ""};
    return answers;
  }

  /// As all_do(), and each must succeed: [ranks] payloads.
  std::vector<std::string> ask(const std::string& message, double seconds = kAnswerSeconds) {
    const std::vector<RankAnswer> answers = all_do(message, seconds);
    std::vector<std::string> payloads;
    for (uint32_t rank = 0; rank < ranks(); ++rank)
      if (!answers[rank].came)
        broken_ = fmt::format("rank {} is not there: {}", rank, why_gone(rank, answers[rank]));
    if (!broken_.empty()) throw GpuGroupError(broken_);
    for (uint32_t rank = 0; rank < ranks(); ++rank)
      payloads.push_back(payload_of(rank, answers[rank]));
    return payloads;
  }

  void share_through_nccl() {
    try {
      ask(ShareRequest{true, make_nccl_id(), limit_factor_}.message());
      notes_.push_back(nccl_state().text + " shares the ranks' memory");
    } catch (const SymmetricMemoryError& error) {
      share_through_handles(error.what());
    }
  }

  void share_through_handles(const std::string& why) {
    through_nccl_ = false;
    reserved_ = 0;
    notes_.push_back("CUDA's own handles share the ranks' memory, not NCCL: " + why);
    ask(ShareRequest{false, unique_name(), limit_factor_}.message());
  }

  /// The ranks' memory is `bytes` or more from now on.
  void reserve(uint64_t bytes) {
    if (bytes <= reserved_) return;
    const uint64_t size = rounded_up(bytes);
    MessageWriter request = command_message(RankCommand::Allocate);
    request.value(size);
    try {
      ask(request.bytes());
      ask(command_message(RankCommand::Connect).bytes());
    } catch (const SymmetricMemoryError& error) {
      if (!through_nccl_) throw GpuGroupError(error.what());
      share_through_handles(error.what());
      reserve(bytes);
      return;
    }
    reserved_ = size;
  }

  void stage(const Case& c, size_t index, const GpuLaunchOptions& options) {
    const Shape& shape = c.launches[index].shape;
    check(shape, c.kernel, options.unsafe_ring);
    const KernelPlan plan =
        member_->card().plan(shape, c.kernel, options.unsafe_ring, options.taps, 1);
    reserve(kControlBytes + make_layout(shape, plan).total);
    StageRequest request;
    request.case_text = case_to_json(c);
    request.launch = index;
    request.unsafe_ring = options.unsafe_ring;
    request.taps = options.taps;
    request.poison = options.poison;
    try {
      ask(request.message(), kStageSeconds);
    } catch (...) {
      // A rank that got further than another would go on with other barrier words.
      if (broken_.empty()) all_do(command_message(RankCommand::Discard).bytes(), kAnswerSeconds);
      throw;
    }
  }

  void collect(const std::vector<StartAnswer>& starts, GpuLaunch& out) {
    const CardLauncher& card = member_->card();
    const Problem& problem = member_->problem();
    const RegionReader read = card.workspace().reader();
    CollectedLayer collected =
        collect_result(problem.shape, card.args().plan, token_counts(problem), read);
    out.finished = true;
    out.result = std::move(collected.result);
    out.findings = std::move(collected.findings);
    for (Finding& finding : check_zero_words(problem.shape, card.args().plan, read))
      out.findings.push_back(std::move(finding));
    if (!out.findings.empty()) ask(command_message(RankCommand::Discard).bytes());
    for (Finding& note : late_starts(starts)) out.findings.push_back(std::move(note));
  }

  /// The findings of a launch that was given up or that ranks were missing from. Every rank that is
  /// left gets them, and all start afresh.
  std::vector<Finding> report(const std::vector<std::string>& absent) {
    const std::string gone = std::exchange(broken_, "");
    std::vector<RecordsAnswer> records(ranks());
    const std::vector<RankAnswer> answers =
        all_do(command_message(RankCommand::Records).bytes(), kAnswerSeconds);
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      if (!answers[rank].came) continue;
      const std::string payload = payload_of(rank, answers[rank]);
      MessageReader read(payload);
      records[rank] = RecordsAnswer::read(read);
    }
    std::vector<Finding> findings =
        group_findings(member_->card().args(), member_->card().workspace().bases(), records, absent,
                       member_->card().limit_seconds());
    for (const Finding& finding : findings) {
      MessageWriter request = command_message(RankCommand::Report);
      all_do(request.text(finding.text).bytes(), kAnswerSeconds);
    }
    all_do(command_message(RankCommand::Discard).bytes(), kAnswerSeconds);
    broken_ = gone;
    return findings;
  }

  GpuGroupOptions options_;
  RankHub hub_;
  ChildProcesses children_;
  std::optional<RankMember> member_;
  std::string nccl_missing_;
  bool through_nccl_ = false;
  double limit_factor_ = 1;
  uint64_t reserved_ = 0;
  std::string broken_;  ///< why no further command can be done
  std::vector<std::string> notes_;
};

GpuGroup::GpuGroup(const GpuGroupOptions& options) : impl_(std::make_unique<Impl>(options)) {}
GpuGroup::~GpuGroup() = default;

const DeviceInfo& GpuGroup::device() const { return impl_->member().card().device(); }
const std::vector<std::string>& GpuGroup::notes() const { return impl_->notes(); }

void GpuGroup::check(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring) const {
  impl_->check(shape, kernel, unsafe_ring);
}

GpuLaunch GpuGroup::launch(const Case& c, size_t index, const GpuLaunchOptions& options) {
  return impl_->launch(c, index, options);
}

std::vector<double> GpuGroup::time(const Case& c, uint32_t repeats) {
  return impl_->time(c, repeats);
}

RunResult GpuGroup::run(const Case& c, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const LaunchSpec& launch : c.launches) check(launch.shape, c.kernel, options.unsafe_ring);
  RunResult run;
  try {
    for (size_t i = 0; i < c.launches.size(); ++i) {
      GpuLaunch launched = launch(c, i, {options.unsafe_ring, true, c.world.poison});
      for (Finding& finding : launched.findings) run.findings.push_back(std::move(finding));
      if (!launched.finished) {
        run.launches.clear();
        break;
      }
      run.launches.push_back(std::move(launched.result));
    }
  } catch (const GpuGroupError& error) {
    run.launches.clear();
    run.findings.push_back({FindingClass::Residency, Step::None, 0, 0, "host", error.what(), ""});
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace moetwin
