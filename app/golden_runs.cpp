#include "app/golden_runs.h"

#include <fmt/format.h>
#include <omp.h>

#include <exception>

#include "app/case_checks.h"
#include "app/progress.h"
#include "common/check.h"
#include "common/step.h"

namespace moetwin {
namespace {

GoldenRun run_one(const Case& c, const BackendRun& run_case, uint32_t threads) {
  RunOptions options;
  options.threads = threads;
  const RunResult result = run_case(c, options);
  GoldenRun run;
  if (!result.launches.empty()) run.digests = digest_stages(result.launches.back());
  for (const Finding& finding : result.findings) {
    if (finding.kind == FindingClass::Slow) continue;
    const std::string text = finding.text.substr(0, finding.text.find('\n'));
    run.finding = fmt::format("{} at {}, rank {}: {}", finding_class_name(finding.kind),
                              step_name(finding.step), finding.rank, text);
    break;
  }
  return run;
}

}  // namespace

std::vector<GoldenRun> run_golden_cases(const std::vector<NamedCase>& cases,
                                        const GoldenRunOptions& options) {
  const Backend& backend = *options.backend;
  for (const NamedCase& named : cases) {
    try {
      check_card_ranks(options.cards, named.c);
      check_case(named.c, backend, {false, false, "", options.memory_limit});
    } catch (const InputError& error) {
      throw InputError(named.name + ": " + error.what());
    }
  }
  const int cores =
      options.threads == 0 ? omp_get_max_threads() : static_cast<int>(options.threads);
  bool several = !backend.on_card && cases.size() > 1;
  for (const NamedCase& named : cases)
    several = several && run_bytes(named.c, backend.simulated, false) <=
                             options.memory_limit / static_cast<uint64_t>(cores);
  const int teams = several ? cores : 1;
  const uint32_t threads = several ? 1 : options.threads;

  const BackendRun run_case = open_backend(backend, options.cards);
  std::vector<GoldenRun> runs(cases.size());
  std::vector<std::exception_ptr> failures(cases.size());
  Progress progress(options.what, cases.size());
#pragma omp parallel for num_threads(teams) schedule(dynamic)
  for (size_t i = 0; i < cases.size(); ++i) {
    try {
      runs[i] = run_one(cases[i].c, run_case, threads);
    } catch (...) {
      failures[i] = std::current_exception();
    }
    progress.advance();
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!failures[i]) continue;
    try {
      std::rethrow_exception(failures[i]);
    } catch (const InputError& error) {
      throw InputError(cases[i].name + ": " + error.what());
    }
  }
  return runs;
}

}  // namespace moetwin
