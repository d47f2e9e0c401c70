#include "cuda/ranks/rank_place.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "common/check.h"

namespace moetwin {
namespace {

constexpr const char* kDefaultAddress = "127.0.0.1";
constexpr const char* kDefaultPort = "29500";

/// The variables that one way of starting processes sets.
struct Variables {
  const char* rank;
  const char* ranks;
  const char* local_rank;
};
constexpr Variables kVariables[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
};

uint32_t read_number(const std::string& name, std::string_view text, uint32_t low, uint32_t high) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (text.empty() || read.ec != std::errc{} || read.ptr != end || value < low || value > high)
    throw InputError(name + ": '" + std::string(text.substr(0, 60)) + "' is not an integer from " +
                     std::to_string(low) + " to " + std::to_string(high));
  return value;
}

std::string variable_or(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : text;
}

/// torchrun keeps MASTER_PORT for a store of its own, so rank 0 listens beside it.
bool port_is_taken() { return variable_or("TORCHELASTIC_USE_AGENT_STORE", "") == "True"; }

}  // namespace

std::optional<RankPlace> rank_place_from_environment() {
  for (const Variables& names : kVariables) {
    const char* const rank = std::getenv(names.rank);
    const char* const ranks = std::getenv(names.ranks);
    if (rank == nullptr && ranks == nullptr) continue;
    if (rank == nullptr)
      throw InputError(std::string(names.rank) + ": is not set, but " + names.ranks + " is");
    if (ranks == nullptr)
      throw InputError(std::string(names.ranks) + ": is not set, but " + names.rank + " is");
    RankPlace place;
    place.ranks = read_number(names.ranks, ranks, 1, kMaxRankProcesses);
    place.rank = read_number(names.rank, rank, 0, place.ranks - 1);
    const char* const local = std::getenv(names.local_rank);
    place.local_rank = local == nullptr
                           ? place.rank
                           : read_number(names.local_rank, local, 0, kMaxRankProcesses - 1);
    place.address = variable_or("MASTER_ADDR", kDefaultAddress);
    const uint32_t port =
        read_number("MASTER_PORT", variable_or("MASTER_PORT", kDefaultPort), 1, 65534);
    place.port = static_cast<uint16_t>(port + (port_is_taken() ? 1 : 0));
    return place;
  }
  return std::nullopt;
}

std::vector<std::string> environment_of(const RankPlace& place) {
  return {"RANK=" + std::to_string(place.rank),
          "WORLD_SIZE=" + std::to_string(place.ranks),
          "LOCAL_RANK=" + std::to_string(place.local_rank),
          "MASTER_ADDR=" + place.address,
          "MASTER_PORT=" + std::to_string(place.port),
          "TORCHELASTIC_USE_AGENT_STORE="};
}

}  // namespace moetwin
