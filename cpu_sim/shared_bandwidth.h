// What the SMs of a card share under the timed schedule: memory, L2 and the link to peers, and what
// the warps of an SM share: its port to L2 and its tensor cores. Each is a queue that serves
// requests one after the other, in the order in which they are made; the schedule makes them in the
// order of virtual time. It knows which weights are likely still in L2, and no latency.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cpu_sim/cost_table.h"

namespace moetwin {

/// Serves one request after the other. In picoseconds: a rate is no whole number of nanoseconds.
class BandwidthQueue {
 public:
  /// A request of `bytes` at `now` ns; returns when its last byte is through, in ns.
  uint64_t serve(uint64_t now, uint64_t bytes, uint64_t bytes_a_microsecond) {
    return serve_for(now, bytes * 1'000'000 / bytes_a_microsecond);
  }
  uint64_t serve_for(uint64_t now, uint64_t picoseconds) {
    free_ = std::max(free_, now * 1000) + picoseconds;
    return (free_ + 999) / 1000;
  }

 private:
  uint64_t free_ = 0;
};

/// Which parts of a stream that is read in pieces are still in a cache. A cache does not forget
/// oldest first: the more was read from elsewhere since, the less of a piece is left.
class RecentlyRead {
 public:
  /// How many of the piece's bytes are no longer there; all are from now on. None are lost while
  /// `kept` bytes come in from elsewhere, all when `lost` have, evenly between.
  uint64_t touch(uint64_t piece, uint64_t bytes, uint64_t kept, uint64_t lost) {
    const auto [place, is_new] = last_.try_emplace(piece, 0);
    const uint64_t since = is_new ? lost : std::min(read_ - place->second, lost);
    const uint64_t missing = since <= kept ? 0 : bytes * (since - kept) / (lost - kept);
    read_ += missing;
    place->second = read_;
    return missing;
  }

 private:
  std::unordered_map<uint64_t, uint64_t> last_;
  uint64_t read_ = 0;
};

class SharedBandwidth {
 public:
  void start(uint32_t ranks, uint32_t sms, const CostTable& costs) {
    costs_ = costs;
    sms_ = sms;
    cards_.assign(ranks, {});
    ctas_.assign(size_t{ranks} * sms, {});
  }

  /// A request at `now` by SM `cta` (of all ranks'); each returns when it is through, in ns.
  uint64_t weights(uint64_t now, uint32_t cta, uint64_t piece, uint64_t bytes) {
    Card& card = cards_[cta / sms_];
    uint64_t done = through_l2(now, cta, bytes);
    const uint64_t missing = card.recent.touch(piece, bytes, costs_.l2_kept, costs_.l2_lost);
    if (missing != 0) done = std::max(done, card.dram.serve(now, missing, costs_.dram_rate));
    return done;
  }
  uint64_t data(uint64_t now, uint32_t cta, uint64_t bytes) { return through_l2(now, cta, bytes); }
  /// Between the SM and the card of `peer`, over whose link the bytes go.
  uint64_t peer_data(uint64_t now, uint32_t cta, uint32_t peer, uint64_t bytes) {
    return std::max(ctas_[cta].port.serve(now, bytes, costs_.sm_rate),
                    cards_[peer].link.serve(now, bytes, costs_.link_rate));
  }
  uint64_t tensor_cores(uint64_t now, uint32_t cta, uint64_t steps) {
    return ctas_[cta].tensor.serve_for(now, steps * costs_.mma_step * 1000);
  }

 private:
  struct Card {
    BandwidthQueue dram;
    BandwidthQueue l2;
    BandwidthQueue link;
    RecentlyRead recent;
  };
  struct Cta {
    BandwidthQueue port;
    BandwidthQueue tensor;
  };

  uint64_t through_l2(uint64_t now, uint32_t cta, uint64_t bytes) {
    return std::max(ctas_[cta].port.serve(now, bytes, costs_.sm_rate),
                    cards_[cta / sms_].l2.serve(now, bytes, costs_.l2_rate));
  }

  CostTable costs_;
  uint32_t sms_ = 1;
  std::vector<Card> cards_;
  std::vector<Cta> ctas_;
};

}  // namespace moetwin
