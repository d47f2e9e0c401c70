#include "cpu_sim/run_queue.h"

#include <algorithm>

#include "common/check.h"

namespace moetwin {

namespace {

/// The standard heap keeps the largest in front, so "less" is "runs later".
bool runs_later(const RunQueue::Entry& a, const RunQueue::Entry& b) {
  return a.key != b.key ? a.key > b.key : a.agent > b.agent;
}

uint32_t band_of(uint64_t key) { return static_cast<uint32_t>(key >> kKeyBandShift); }

}  // namespace

void RunQueue::start(Order order) {
  order_ = order;
  size_ = 0;
  lists_.fill({});
  links_.clear();
  heap_.clear();
}

void RunQueue::reserve_agents(uint32_t agents) {
  MOETWIN_CHECK(agents < kEnd);
  if (links_.size() < agents) links_.resize(agents);
}

void RunQueue::push(uint32_t agent, uint64_t key) {
  MOETWIN_CHECK(agent < links_.size() && !contains(agent));
  Link& link = links_[agent];
  link.next = kEnd;
  ++size_;
  if (order_ == Order::Key) {
    heap_.push_back({key, agent});
    std::push_heap(heap_.begin(), heap_.end(), runs_later);
    return;
  }
  MOETWIN_CHECK(band_of(key) < kKeyBands);
  List& list = lists_[band_of(key)];
  link.key = key;
  link.previous = list.tail;
  if (list.tail == kEnd) {
    list.head = agent;
  } else {
    MOETWIN_CHECK(links_[list.tail].key < key);
    links_[list.tail].next = agent;
  }
  list.tail = agent;
}

RunQueue::Entry RunQueue::min() const {
  MOETWIN_CHECK(size_ != 0);
  if (order_ == Order::Key) return heap_.front();
  for (const List& list : lists_)
    if (list.head != kEnd) return {links_[list.head].key, list.head};
  MOETWIN_CHECK(false);
  return {};
}

RunQueue::Entry RunQueue::pop_min() {
  const Entry first = min();
  if (order_ == Order::Key) {
    std::pop_heap(heap_.begin(), heap_.end(), runs_later);
    heap_.pop_back();
    links_[first.agent].next = kUnqueued;
    --size_;
  } else {
    unlink(first.agent);
  }
  return first;
}

bool RunQueue::remove(uint32_t agent) {
  if (!contains(agent)) return false;
  if (order_ == Order::Arrival) {
    unlink(agent);
    return true;
  }
  const auto found = std::find_if(heap_.begin(), heap_.end(),
                                  [agent](const Entry& entry) { return entry.agent == agent; });
  *found = heap_.back();
  heap_.pop_back();
  rebuild();
  links_[agent].next = kUnqueued;
  --size_;
  return true;
}

void RunQueue::list(std::vector<uint32_t>& agents) const {
  MOETWIN_CHECK(order_ == Order::Arrival);
  for (const List& list : lists_)
    for (uint32_t agent = list.head; agent != kEnd; agent = links_[agent].next)
      agents.push_back(agent);
}

void RunQueue::unlink(uint32_t agent) {
  Link& link = links_[agent];
  List& list = lists_[band_of(link.key)];
  if (link.previous == kEnd)
    list.head = link.next;
  else
    links_[link.previous].next = link.next;
  if (link.next == kEnd)
    list.tail = link.previous;
  else
    links_[link.next].previous = link.previous;
  link.next = kUnqueued;
  --size_;
}

void RunQueue::rebuild() { std::make_heap(heap_.begin(), heap_.end(), runs_later); }

}  // namespace moetwin
