// A run on several cards as the command line sees it: --gpus N starts a process for each rank,
// torchrun or mpirun have started them already. Rank 0 is the command that was typed; every other
// rank only serves it and prints nothing but its report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/backends.h"
#include "model/case.h"

namespace moetwin {

/// How many cards a command uses, one rank each; 0: one card for all ranks.
struct CardRanks {
  uint32_t gpus = 0;
  bool started = false;  ///< the processes are there already: this is rank 0 of them
};

/// Reads --gpus (1 to 16, empty: not given) and, where `on_card`, the environment of a rank. Throws
/// InputError where --gpus is given for another backend or is not WORLD_SIZE.
CardRanks read_card_ranks(const std::string& text, bool on_card);

/// Throws InputError unless every launch of `c` has as many ranks as there are cards.
void check_card_ranks(const CardRanks& cards, const Case& c);

/// Where this process is a rank other than 0: does all of its work, and returns the exit status.
/// Throws NoDeviceError and InputError.
std::optional<int> serve_card_rank(bool on_card);

/// The backend ready to run cases one after the other. Cards and processes are held until the
/// last copy is gone. Notes about them go to standard error.
BackendRun open_backend(const Backend& backend, const CardRanks& cards);

}  // namespace moetwin
