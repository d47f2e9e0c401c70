#include "app/card_ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "app/arguments.h"
#include "app/verbs.h"
#include "common/check.h"
#include "cuda/ranks/rank_place.h"

#ifdef MOETWIN_HAVE_CUDA
#include "cuda/gpu_group.h"
#endif

namespace moetwin {
namespace {

#ifdef MOETWIN_HAVE_CUDA
void print_line(const std::string& line) {
  std::fputs(("moetwin: " + line + "\n").c_str(), stderr);
}

/// Calls f, the errors of cards as the command line knows them.
template <class F>
auto on_cards(F&& f) {
  try {
    return f();
  } catch (const NoCudaDevice& error) {
    throw NoDeviceError(error.what());
  }
}

std::shared_ptr<GpuGroup> open_group(const CardRanks& cards) {
  GpuGroupOptions options = group_of(cards.gpus);
  if (cards.started) {
    options.place = *rank_place_from_environment();
    options.start_processes = false;
  }
  return std::make_shared<GpuGroup>(options);
}

BackendRun open_cards(const CardRanks& cards) {
  auto session = std::make_shared<std::unique_ptr<GpuSession>>();
  auto group = std::make_shared<std::shared_ptr<GpuGroup>>();
  auto printed = std::make_shared<size_t>(0);
  // Ranks that were started wait for this one, however long its other work takes.
  if (cards.started) on_cards([&] { *group = open_group(cards); });
  return [cards, session, group, printed](const Case& c, const RunOptions& options) {
    return on_cards([&] {
      if (cards.gpus == 0) {
        if (!*session) *session = std::make_unique<GpuSession>();
        return (*session)->run(c, options);
      }
      if (!*group) *group = open_group(cards);
      RunResult result = (*group)->run(c, options);
      for (; *printed < (*group)->notes().size(); ++*printed)
        print_line((*group)->notes()[*printed]);
      return result;
    });
  };
}
#endif

}  // namespace

CardRanks read_card_ranks(const std::string& text, bool on_card) {
  CardRanks cards;
  if (!text.empty()) {
    cards.gpus = static_cast<uint32_t>(read_integer_option("--gpus", text, 1, kMaxRankProcesses));
    if (!on_card) throw InputError("--gpus: is for --backend gpu, which is not asked for");
  }
  if (!on_card) return cards;
  const auto place = rank_place_from_environment();
  if (!place) return cards;
  if (cards.gpus != 0 && cards.gpus != place->ranks)
    throw InputError(fmt::format("--gpus: {} is not {}, the number of ranks that were started",
                                 cards.gpus, place->ranks));
  cards.gpus = place->ranks;
  cards.started = true;
  return cards;
}

void check_card_ranks(const CardRanks& cards, const Case& c) {
  if (cards.gpus == 0) return;
  for (const LaunchSpec& launch : c.launches)
    if (launch.shape.ranks != cards.gpus)
      throw InputError(fmt::format("shape.ranks: {} is not {}, {}", launch.shape.ranks, cards.gpus,
                                   cards.started ? "the number of ranks that were started"
                                                 : "the number of cards of --gpus"));
}

#ifdef MOETWIN_HAVE_CUDA

std::optional<int> serve_card_rank(bool on_card) {
  if (!on_card) return std::nullopt;
  const auto place = rank_place_from_environment();
  if (!place || place->rank == 0) return std::nullopt;
  const RankReport report = on_cards([&] { return serve_rank(*place, {}); });
  for (const std::string& line : report.lines)
    print_line(fmt::format("report on rank {}: {}", place->rank, line));
  return report.failed ? kExitFinding : kExitFine;
}

BackendRun open_backend(const Backend& backend, const CardRanks& cards) {
  if (backend.on_card) return open_cards(cards);
  return backend.run;
}

#else

std::optional<int> serve_card_rank(bool on_card) {
  if (!on_card) return std::nullopt;
  const auto place = rank_place_from_environment();
  if (!place || place->rank == 0) return std::nullopt;
  throw NoDeviceError("no CUDA device: this moetwin was built without CUDA");
}

BackendRun open_backend(const Backend& backend, const CardRanks&) { return backend.run; }

#endif

}  // namespace moetwin
