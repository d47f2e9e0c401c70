// bench checker: what the race checker costs, beside the same simulation unchecked.
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <vector>

#include "app/bench.h"
#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "model/case.h"
#include "model/presets.h"

namespace moetwin {
namespace {

constexpr uint32_t kRounds = 15;

/// Of this thread: what other programs do to the clock is left out.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const Case& c, bool check, bool full_k_loop) {
  RunOptions options;
  options.threads = 1;
  options.math = false;
  options.check = check;
  options.full_k_loop = full_k_loop;
  const double start = thread_seconds();
  MOETWIN_CHECK(!simulate(c, options).failed());
  return thread_seconds() - start;
}

}  // namespace

BenchReport bench_checker() {
  const Case c = parse_case(preset_json("small"), "");
  std::vector<double> stepped;
  std::vector<double> checked;
  std::vector<double> ratios;
  std::vector<double> ratios_to_one_step;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const double one_step = seconds_of(c, false, false);
    stepped.push_back(seconds_of(c, false, true));
    checked.push_back(seconds_of(c, true, true));
    ratios.push_back(checked.back() / stepped.back());
    ratios_to_one_step.push_back(checked.back() / one_step);
  }
  BenchReport report;
  report.json = {{"ratio", median(ratios)},
                 {"ratio_to_one_step", median(ratios_to_one_step)},
                 {"unchecked_seconds", median(stepped)},
                 {"checked_seconds", median(checked)}};
  report.text = fmt::format(
      "checker, one core, small without tile arithmetic, alternating, medians of {}\n"
      "unchecked, k loop stepped     {:8.1f} ms\n"
      "checked, which steps it too   {:8.1f} ms, ratio {:.2f}\n"
      "ratio to one k step a tile    {:8.2f}\n",
      kRounds, median(stepped) * 1e3, median(checked) * 1e3, median(ratios),
      median(ratios_to_one_step));
  return report;
}

}  // namespace moetwin
