#include "app/mpi_peers.h"

#include <string>
#include <vector>

#ifdef MOETWIN_HAVE_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdlib>

#include "common/check.h"
#endif

namespace moetwin {
namespace {

class NoPeers : public StartedPeers {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t count() const override { return 1; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
};

#ifdef MOETWIN_HAVE_MPI
void check_mpi(int status) {
  if (status != MPI_SUCCESS)
    throw InternalError("MPI failed with status " + std::to_string(status));
}

/// MPI is called from the thread that made this only.
class MpiPeers : public StartedPeers {
 public:
  MpiPeers() {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    int rank = 0;
    int count = 1;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &count));
    rank_ = static_cast<uint32_t>(rank);
    count_ = static_cast<uint32_t>(count);
  }
  ~MpiPeers() override {
    if (finished_)
      MPI_Finalize();
    else
      MPI_Abort(MPI_COMM_WORLD, 1);
  }

  uint32_t rank() const override { return rank_; }
  uint32_t count() const override { return count_; }

  std::vector<std::string> exchange(const std::string& mine) override {
    const int bytes = static_cast<int>(mine.size());
    std::vector<int> sizes(count_);
    check_mpi(MPI_Allgather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD));
    std::vector<int> places(count_, 0);
    for (uint32_t i = 1; i < count_; ++i) places[i] = places[i - 1] + sizes[i - 1];
    std::string all(static_cast<size_t>(places.back() + sizes.back()), '\0');
    check_mpi(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), sizes.data(), places.data(),
                             MPI_BYTE, MPI_COMM_WORLD));
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < count_; ++i)
      texts.push_back(all.substr(static_cast<size_t>(places[i]), static_cast<size_t>(sizes[i])));
    return texts;
  }

  void finish() override { finished_ = true; }

 private:
  uint32_t rank_ = 0;
  uint32_t count_ = 1;
  bool finished_ = false;
};
#endif

}  // namespace

std::unique_ptr<StartedPeers> started_peers() {
#ifdef MOETWIN_HAVE_MPI
  // How Open MPI and the launchers of MPICH's family tell a process that it has peers.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (std::getenv(name) != nullptr) return std::make_unique<MpiPeers>();
#endif
  return std::make_unique<NoPeers>();
}

}  // namespace moetwin
