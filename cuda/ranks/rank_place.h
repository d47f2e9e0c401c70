// Which rank of how many this process is, and where rank 0 is met: read from the environment that
// torchrun or mpirun set. No process is started and no connection made here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moetwin {

/// Most processes a run can have: as many ranks as a kernel's parameters hold.
constexpr uint32_t kMaxRankProcesses = 16;

struct RankPlace {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t local_rank = 0;  ///< which card of the host
  std::string address;      ///< where rank 0 listens
  uint16_t port = 0;        ///< 0: rank 0 takes any that is free
};

/// The place that the environment gives this process, or nothing where it gives none. RANK and
/// WORLD_SIZE come first (LOCAL_RANK = RANK unless given), then those of Open MPI
/// (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK), then PMI_RANK, PMI_SIZE, MPI_LOCALRANKID. Rank 0 is
/// met at MASTER_ADDR (127.0.0.1) and MASTER_PORT (29500). Throws InputError that names the
/// variable.
std::optional<RankPlace> rank_place_from_environment();

/// `place` as variables NAME=VALUE that rank_place_from_environment() reads in another process.
std::vector<std::string> environment_of(const RankPlace& place);

}  // namespace moetwin
