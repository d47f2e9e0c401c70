// Which card of which host a rank has, and whether the cards of a run reach each other's memory by
// load, store and atomic operations. Host code only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetwin {

struct CardIdentity {
  std::string host;  ///< the same for processes of one running host
  std::string bus;   ///< PCI bus id: the same for processes that share a card
  std::string name;
};

/// Of card `device`.
CardIdentity card_identity(uint32_t device);

/// One line that says why rank `rank`, which has the card `device`, cannot reach the memory of
/// another rank; empty where it reaches all. `cards` are those of all ranks.
std::string why_unreachable(uint32_t rank, uint32_t device, const std::vector<CardIdentity>& cards);

/// Whether two ranks have the same card.
bool share_a_card(const std::vector<CardIdentity>& cards);

}  // namespace moetwin
