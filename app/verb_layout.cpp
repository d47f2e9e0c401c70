// layout: the symmetric buffer of a case, region by region.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/case_checks.h"
#include "app/options.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/symmetric_layout.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Every rank has the same layout. 'launch' regions carry nothing into the next launch, 'zero'\n"
    "regions are zero at entry and exit of each, 'persistent' ones keep their value.\n\n"
    "Examples:\n"
    "  moetwin layout small.json\n"
    "  moetwin layout small.json --taps --json\n";

struct Options {
  std::string path;
  bool taps = false;
  bool unsafe_ring = false;
  bool json = false;
};

const char* persistence_name(Persistence persistence) {
  constexpr const char* kNames[] = {"launch", "zero", "persistent"};
  return kNames[static_cast<uint32_t>(persistence)];
}

Json layout_json(const Shape& shape, const SymmetricLayout& layout) {
  Json regions = Json::array();
  for (uint32_t i = 0; i < kNumRegions; ++i) {
    const auto region = static_cast<Region>(i);
    const RegionInfo info = region_info(region);
    regions.push_back({{"region", info.name},
                       {"offset", layout.offset(region)},
                       {"bytes", layout.size(region)},
                       {"element_bytes", info.element_bytes},
                       {"between_launches", persistence_name(info.persistence)},
                       {"writers", info.writers},
                       {"readers", info.readers}});
  }
  return {{"ranks", shape.ranks}, {"bytes_per_rank", layout.total}, {"regions", regions}};
}

std::string layout_table(const Shape& shape, const SymmetricLayout& layout) {
  std::string table = fmt::format("{:<18} {:>14} {:>14}  {:<10}  {:<33}  {}\n", "region", "offset",
                                  "bytes", "carries", "who writes", "who reads");
  for (uint32_t i = 0; i < kNumRegions; ++i) {
    const auto region = static_cast<Region>(i);
    const RegionInfo info = region_info(region);
    if (layout.size(region) == 0) continue;
    table += fmt::format("{:<18} {:>14} {:>14}  {:<10}  {:<33}  {}\n", info.name,
                         layout.offset(region), layout.size(region),
                         persistence_name(info.persistence), info.writers, info.readers);
  }
  return table + fmt::format("{:<18} {:>14} {:>14}  on each of {} ranks\n", "all", "", layout.total,
                             shape.ranks);
}

int show_layout(const Options& o) {
  const Case c = load_case(o.path);
  const LaunchSpec& last = c.launches.back();
  const KernelPlan plan = plan_of(c, last, o.unsafe_ring, o.taps);
  const SymmetricLayout layout = make_layout(last.shape, plan);
  const std::string text =
      o.json ? layout_json(last.shape, layout).dump() + "\n"
             : case_lines(c, o.unsafe_ring) + "\n" + layout_table(last.shape, layout);
  std::fputs(text.c_str(), stdout);
  return kExitFine;
}

}  // namespace

VerbAction add_layout(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file");
  options.flag("--taps", o->taps, "with the regions that keep Linear1's rows for comparison");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return show_layout(*o); };
}

}  // namespace moetwin
