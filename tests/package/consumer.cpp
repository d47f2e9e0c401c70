// Uses the installed libraries as somebody else's project would: a small layer on the simulator and
// on the naive path. Exit status 0 where the bits are equal at every stage.
#include <cstdio>

#include "cpu_sim/simulate.h"
#include "model/case_reader.h"
#include "model/compare.h"
#include "model/naive.h"
#include "model/presets.h"

int main() {
  using namespace moetwin;
  const Case c = parse_case(preset_json("tiny"), ".");
  const RunResult sim = simulate(c, RunOptions{});
  if (sim.failed() || sim.launches.size() != 1) return 1;
  WeightCache cache;
  const LayerResult naive = run_naive(make_problem(c, 0, cache));
  const bool equal = compare_results(sim.launches[0], naive).equal();
  std::printf("consumer: %s\n", equal ? "equal bits" : "other bits");
  return equal ? 0 : 1;
}
