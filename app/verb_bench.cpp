// bench: speed, always as ratios or rates measured in one run.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "app/arguments.h"
#include "app/bench.h"
#include "app/options.h"
#include "app/verbs.h"
#include "common/check.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "tensor_core   the E4M3 tile kernel beside Eigen's float GEMM and the plain scalar step: one\n"
    "              core, alternating, best of seven\n"
    "control       control events a second without tile arithmetic, k loops whole and stepped\n"
    "cases         generated cases a second, simulator and naive path\n"
    "checker       `small` without tile arithmetic, checked and unchecked, alternating\n"
    "timed         the timed schedule's clock beside launches measured on an H200\n"
    "scaling       the tile kernel on one and two threads; time against rows and ranks "
    "(minutes)\n\n"
    "Examples:\n"
    "  moetwin bench\n"
    "  moetwin bench tensor_core --json\n"
    "  moetwin bench timed --plot timed.svg\n";

struct Bench {
  const char* name;
  BenchReport (*measure)();
};

constexpr std::array<Bench, 6> kBenches = {{{"tensor_core", bench_tensor_core},
                                            {"control", bench_control},
                                            {"cases", bench_cases},
                                            {"checker", bench_checker},
                                            {"timed", bench_timed},
                                            {"scaling", bench_scaling}}};

struct Options {
  std::string name;
  std::string plot;
  bool json = false;
};

int bench(const Options& o) {
  nlohmann::ordered_json all;
  bool known = o.name.empty();
  for (const Bench& each : kBenches) known = known || o.name == each.name;
  if (!known)
    throw InputError(fmt::format(
        "NAME: '{}' is not one of tensor_core, control, cases, checker, timed, scaling", o.name));
  if (!o.plot.empty() && o.name != "timed")
    throw InputError("--plot: only 'timed' has a plot; name it");
  if (!o.plot.empty()) check_output_path("--plot", o.plot);
  for (const Bench& each : kBenches) {
    if (!o.name.empty() && o.name != each.name) continue;
    const BenchReport report = each.measure();
    if (!o.plot.empty()) write_file(o.plot, report.svg, "--plot");
    if (!o.json) std::fputs(report.text.c_str(), stdout);
    if (o.name.empty())
      all[each.name] = report.json;
    else
      all = report.json;
  }
  if (o.json) std::fputs((all.dump() + "\n").c_str(), stdout);
  return kExitFine;
}

}  // namespace

VerbAction add_bench(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.optional_argument(
      "NAME", o->name,
      "what to measure: tensor_core, control, cases, checker, timed or scaling (all)");
  options.text("--plot", o->plot, "with timed: write its plot, an SVG file");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return bench(*o); };
}

}  // namespace moetwin
