#include "cuda/card_identity.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "cuda/cuda_error.h"

namespace moetwin {
namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return std::string(name) + " " + boot;
}

}  // namespace

CardIdentity card_identity(uint32_t device) {
  char bus[32] = {};
  check_cuda(cudaDeviceGetPCIBusId(bus, sizeof(bus), static_cast<int>(device)),
             "asking for the card's bus id");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, static_cast<int>(device)),
             "asking for the card's name");
  return {host_name(), bus, properties.name};
}

std::string why_unreachable(uint32_t rank, uint32_t device,
                            const std::vector<CardIdentity>& cards) {
  for (uint32_t peer = 0; peer < cards.size(); ++peer) {
    if (cards[peer].host != cards[rank].host)
      return fmt::format("rank {} is on another host than rank {}; a run is on the cards of one",
                         peer, rank);
    if (cards[peer].bus == cards[rank].bus) continue;
    int other = 0;
    if (cudaDeviceGetByPCIBusId(&other, cards[peer].bus.c_str()) != cudaSuccess) {
      cudaGetLastError();
      return fmt::format(
          "rank {} does not see the card of rank {} ({}); CUDA_VISIBLE_DEVICES must show all cards "
          "to every rank",
          rank, peer, cards[peer].bus);
    }
    int reached = 0;
    check_cuda(cudaDeviceCanAccessPeer(&reached, static_cast<int>(device), other),
               "asking whether cards reach each other");
    int atomics = 0;
    check_cuda(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported,
                                         static_cast<int>(device), other),
               "asking for atomics between cards");
    if (reached == 0 || atomics == 0)
      return fmt::format("the cards of ranks {} and {} do not reach each other by {}", rank, peer,
                         reached == 0 ? "load and store" : "atomic operations");
  }
  return "";
}

bool share_a_card(const std::vector<CardIdentity>& cards) {
  std::set<std::string> seen;
  for (const CardIdentity& card : cards)
    if (!seen.insert(card.bus).second) return true;
  return false;
}

}  // namespace moetwin
