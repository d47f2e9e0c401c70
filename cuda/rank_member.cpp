#include "cuda/rank_member.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "common/check.h"
#include "cuda/meet.h"

namespace moetwin {
namespace {

/// Every rank is in Connect when one is: only files and addresses are exchanged.
constexpr double kConnectSeconds = 30;

/// The processes of a run share the host: each computes with its part of the cores, or the threads
/// of one would wait, spinning, for those of another.
class ShareOfCores {
 public:
  explicit ShareOfCores(uint32_t processes) : before_(omp_get_max_threads()) {
    omp_set_num_threads(std::max(1, omp_get_num_procs() / static_cast<int>(processes)));
  }
  ~ShareOfCores() { omp_set_num_threads(before_); }
  ShareOfCores(const ShareOfCores&) = delete;
  ShareOfCores& operator=(const ShareOfCores&) = delete;

 private:
  int before_;
};

int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string RankMember::handle(const std::string& message) {
  try {
    MessageReader read(message);
    const RankCommand command = read.value<RankCommand>();
    return fine_answer(run(command, read));
  } catch (const RankLeaves&) {
    throw;
  } catch (...) {
    return failed_answer();
  }
}

std::string RankMember::run(RankCommand command, MessageReader& read) {
  MessageWriter out;
  switch (command) {
    case RankCommand::Describe:
      return describe();
    case RankCommand::Reach:
      reach(read_cards(read));
      break;
    case RankCommand::Share:
      share(ShareRequest::read(read));
      break;
    case RankCommand::Allocate:
      allocate(read.value<uint64_t>());
      break;
    case RankCommand::Connect:
      connect();
      break;
    case RankCommand::Stage:
      stage(StageRequest::read(read));
      break;
    case RankCommand::Start:
      out.value(start(read.value<StartRequest>()));
      break;
    case RankCommand::Time:
      out.values(time(read.value<uint32_t>()));
      break;
    case RankCommand::Records:
      return records().payload();
    case RankCommand::Report:
      reports_.push_back(read.text());
      break;
    case RankCommand::Discard:
      discard();
      break;
    case RankCommand::End:
      break;
  }
  return out.bytes();
}

std::string RankMember::describe() {
  options_.device = place_.local_rank;
  card_ = std::make_unique<CardLauncher>(options_);
  const CardIdentity card = card_identity(options_.device);
  const NcclState nccl = nccl_state();
  MessageWriter out;
  out.text(card.host).text(card.bus).text(card.name).value(nccl.usable).text(nccl.text);
  return out.bytes();
}

void RankMember::reach(const std::vector<CardIdentity>& cards) {
  const std::string why = why_unreachable(place_.rank, options_.device, cards);
  if (!why.empty()) throw NoCudaDevice("no CUDA device: " + why);
}

void RankMember::share(const ShareRequest& request) {
  memory_.reset();
  shared_.clear();
  if (request.through_nccl)
    memory_ = make_nccl_memory(place_, request.name, seconds_from_now(kConnectSeconds));
  else
    memory_ = make_vmm_memory(place_, options_.device, request.name);
  card_->multiply_limit(request.limit_factor);
}

void RankMember::allocate(uint64_t bytes) {
  if (memory_->allocate(bytes)) return;
  throw InputError("shape.max_tokens_per_rank: it needs " + std::to_string(bytes >> 20) +
                   " MiB a rank on the card, which has not got them");
}

void RankMember::connect() {
  shared_ = memory_->connect(seconds_from_now(kConnectSeconds));
  // The new memory may lie where the old one did.
  card_->discard_workspace();
  clear_control();
}

void RankMember::clear_control() {
  meetings_ = 0;
  check_cuda(cudaMemsetAsync(reinterpret_cast<void*>(shared_[place_.rank]), 0, kControlBytes,
                             card_->stream().get()),
             "clearing the control words");
  card_->stream().wait();
}

const Case& RankMember::parsed(const std::string& case_text) {
  if (case_text != case_text_ || case_text_.empty()) {
    case_text_.clear();
    case_ = parse_case(case_text, "");
    case_text_ = case_text;
  }
  return case_;
}

void RankMember::stage(const StageRequest& request) {
  const ShareOfCores share(place_.ranks);
  const Case& c = parsed(request.case_text);
  MOETWIN_CHECK(request.launch < c.launches.size() && !shared_.empty());
  problem_ = make_problem(c, request.launch, weights_);
  const KernelPlan plan =
      card_->plan(problem_.shape, c.kernel, request.unsafe_ring, request.taps, 1);
  RankBuffers buffers;
  buffers.local = {place_.rank, 1};
  AbortFlags flags;
  for (const uint64_t address : shared_) {
    buffers.bases.push_back(address + kControlBytes);
    flags.all.push_back(address);
  }
  flags.own = shared_[place_.rank];
  card_->stage(problem_, plan, buffers, flags, request.poison);
  // The others write into this memory as soon as they start.
  card_->stream().wait();
  given_up_ = false;
}

StartAnswer RankMember::start(const StartRequest& request) {
  if (request.leaving_rank == place_.rank) throw RankLeaves();
  if (request.late_rank == place_.rank)
    std::this_thread::sleep_for(std::chrono::duration<double>(request.late_seconds));
  StartAnswer answer{};
  answer.started = now_nanoseconds();
  card_->start();
  answer.milliseconds = card_->wait();
  answer.given_up = given_up_ = card_->was_given_up();
  return answer;
}

std::vector<double> RankMember::time(uint32_t repeats) {
  MeetParams params{};
  params.limits = card_->params().limits;
  params.ranks = place_.ranks;
  for (uint32_t rank = 0; rank < place_.ranks; ++rank)
    params.counters[rank] = shared_[rank] + kMeetCounterOffset;
  params.own = params.counters[place_.rank];
  std::vector<double> microseconds;
  for (uint32_t i = 0; i < repeats && !given_up_; ++i) {
    card_->flush_cache(i);
    params.target = ++meetings_ * place_.ranks;
    check_cuda(meet(params, card_->stream().get()), "meeting the other cards");
    card_->start();
    microseconds.push_back(1e3 * card_->wait());
    given_up_ = card_->was_given_up();
  }
  if (given_up_) throw CudaError("the kernel was given up");
  return microseconds;
}

void RankMember::discard() {
  card_->discard();
  clear_control();
}

}  // namespace moetwin
