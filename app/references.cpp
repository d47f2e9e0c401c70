#include "app/references.h"

#include <fmt/format.h>

#include "model/compare.h"
#include "model/data.h"
#include "model/naive.h"

namespace moetwin {
namespace {

Finding mismatch(const Difference& first, size_t launch, const std::string& name) {
  Finding finding;
  finding.kind = FindingClass::Mismatch;
  finding.rank = first.rank;
  finding.text = fmt::format("launch {}: {}", launch, describe(first, name, "naive"));
  finding.other = "naive";
  return finding;
}

}  // namespace

References run_references(const Case& c, const std::vector<LayerResult>& launches,
                          const std::string& name, uint32_t threads) {
  References references;
  references.compared = name != "naive";
  WeightCache cache;
  for (size_t launch = 0; launch < launches.size(); ++launch) {
    const Problem problem = make_problem(c, launch, cache);
    if (references.compared) {
      const Comparison comparison =
          compare_results(launches[launch], run_naive(problem, {threads}));
      if (const std::optional<Difference> first = comparison.first()) {
        if (references.equal)
          references.difference =
              fmt::format("launch {}: {}", launch, describe(comparison, name, "naive"));
        references.equal = false;
        references.findings.push_back(mismatch(*first, launch, name));
        if (launches.size() > 1) references.findings.back().launch = static_cast<uint32_t>(launch);
      }
    }
    if (launch + 1 < launches.size()) continue;
    references.error = error_against(run_float64(problem, {threads}), launches[launch]);
    const DataSpec& x_data = c.launches[launch].data;
    if (has_unquantised(x_data) && has_unquantised(c.data)) {
      const Float64Result total = run_float64_unquantised(problem, x_data, c.data, {threads});
      references.relative_rms_total = error_against(total, launches[launch]).relative_rms;
    }
  }
  return references;
}

}  // namespace moetwin
