// The runnable agents in order of a 64-bit key; equal keys go by agent number. It knows no policy:
// the scheduler computes keys. Two forms behind one interface: Arrival, where the keys of a band
// only grow (a list a band, everything O(1)), and Key, any keys (a binary heap).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moetwin {

/// The top two bits of a key. A lower band always goes first.
enum class KeyBand : uint8_t { Normal, LateLanding, Held };
constexpr uint32_t kKeyBandShift = 62;
constexpr uint32_t kKeyBands = 3;

constexpr uint64_t band_key(KeyBand band, uint64_t value) {
  return uint64_t{static_cast<uint8_t>(band)} << kKeyBandShift |
         (value & ((uint64_t{1} << kKeyBandShift) - 1));
}

class RunQueue {
 public:
  enum class Order : uint8_t {
    Arrival,  ///< within a band, each push has a larger key than all before it
    Key,      ///< no promise
  };
  struct Entry {
    uint64_t key = 0;
    uint32_t agent = 0;
  };
  static constexpr uint32_t kNoAgent = UINT32_MAX;

  /// Empties the queue and sets its form; memory is kept.
  void start(Order order);
  /// Makes room for agents 0 to `agents` - 1.
  void reserve_agents(uint32_t agents);

  /// `agent` must not be queued.
  void push(uint32_t agent, uint64_t key);
  /// The queue must not be empty.
  Entry min() const;
  Entry pop_min();
  /// The agent at place `ahead` (0 or 1) if nothing changes, or kNoAgent where that is not at hand.
  uint32_t likely_next(uint32_t ahead) const {
    if (order_ == Order::Key) return ahead < heap_.size() ? heap_[ahead].agent : kNoAgent;
    for (const List& list : lists_) {
      if (list.head == kEnd) continue;
      if (ahead == 0) return list.head;
      return links_[list.head].next == kEnd ? kNoAgent : links_[list.head].next;
    }
    return kNoAgent;
  }
  bool contains(uint32_t agent) const {
    return agent < links_.size() && links_[agent].next != kUnqueued;
  }
  /// Takes a given agent out; false when it is not queued. O(1) in Arrival form, O(n) in Key form.
  bool remove(uint32_t agent);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  /// Arrival form: appends the queued agents in the order in which pop_min() would give them.
  void list(std::vector<uint32_t>& agents) const;

  /// Key form: gives every queued agent the key `key_of(agent, old key)`. O(n).
  template <typename KeyOf>
  void rekey(KeyOf key_of) {
    for (Entry& entry : heap_) entry.key = key_of(entry.agent, entry.key);
    rebuild();
  }

 private:
  static constexpr uint32_t kUnqueued = UINT32_MAX;
  static constexpr uint32_t kEnd = UINT32_MAX - 1;

  /// Arrival form: neighbours in the band's list. Key form: `next` only says queued or not.
  struct Link {
    uint64_t key = 0;
    uint32_t next = kUnqueued;
    uint32_t previous = kEnd;
  };
  struct List {
    uint32_t head = kEnd;
    uint32_t tail = kEnd;
  };

  void unlink(uint32_t agent);
  void rebuild();

  Order order_ = Order::Arrival;
  size_t size_ = 0;
  std::array<List, kKeyBands> lists_;
  std::vector<Link> links_;
  std::vector<Entry> heap_;
};

}  // namespace moetwin
