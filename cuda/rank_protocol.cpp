#include "cuda/rank_protocol.h"

#include "common/check.h"
#include "cuda/device_info.h"
#include "cuda/symmetric_memory.h"

namespace moetwin {
namespace {

std::string answer(RankStatus status, const std::string& why) {
  MessageWriter out;
  out.value(status).text(why);
  return out.bytes();
}

}  // namespace

MessageWriter command_message(RankCommand command) {
  MessageWriter out;
  out.value(command);
  return out;
}

std::string ShareRequest::message() const {
  MessageWriter out = command_message(RankCommand::Share);
  return out.value(through_nccl).text(name).value(limit_factor).bytes();
}

ShareRequest ShareRequest::read(MessageReader& read) {
  ShareRequest request;
  request.through_nccl = read.value<bool>();
  request.name = read.text();
  request.limit_factor = read.value<double>();
  return request;
}

std::string StageRequest::message() const {
  MessageWriter out = command_message(RankCommand::Stage);
  out.text(case_text).value(launch).value(unsafe_ring).value(taps).value(poison);
  return out.bytes();
}

StageRequest StageRequest::read(MessageReader& read) {
  StageRequest request;
  request.case_text = read.text();
  request.launch = read.value<uint64_t>();
  request.unsafe_ring = read.value<bool>();
  request.taps = read.value<bool>();
  request.poison = read.value<uint8_t>();
  return request;
}

std::string StartRequest::message() const {
  MessageWriter out = command_message(RankCommand::Start);
  return out.value(*this).bytes();
}

std::string RecordsAnswer::payload() const {
  MessageWriter out;
  return out.values(records).values(bases).bytes();
}

RecordsAnswer RecordsAnswer::read(MessageReader& read) {
  RecordsAnswer answer;
  answer.records = read.values<WaitRecord>();
  answer.bases = read.values<uint64_t>();
  return answer;
}

std::string cards_message(const std::vector<CardIdentity>& cards) {
  MessageWriter out = command_message(RankCommand::Reach);
  out.value<uint64_t>(cards.size());
  for (const CardIdentity& card : cards) out.text(card.host).text(card.bus).text(card.name);
  return out.bytes();
}

std::vector<CardIdentity> read_cards(MessageReader& read) {
  std::vector<CardIdentity> cards;
  for (uint64_t left = read.value<uint64_t>(); left != 0; --left) {
    CardIdentity card;
    card.host = read.text();
    card.bus = read.text();
    card.name = read.text();
    cards.push_back(std::move(card));
  }
  return cards;
}

std::string fine_answer(const std::string& payload) {
  return answer(RankStatus::Fine, "") + payload;
}

std::string failed_answer() {
  try {
    throw;
  } catch (const InputError& error) {
    return answer(RankStatus::BadInput, error.what());
  } catch (const NoCudaDevice& error) {
    return answer(RankStatus::NoDevice, error.what());
  } catch (const SymmetricMemoryError& error) {
    return answer(RankStatus::NoMemorySharing, error.what());
  } catch (const std::exception& error) {
    return answer(RankStatus::Failed, error.what());
  }
}

}  // namespace moetwin
