// numerics: the error of every quantisation and combine choice, and which of them explains a y.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/gnuplot.h"
#include "app/numerics_pictures.h"
#include "app/numerics_report.h"
#include "app/numerics_runs.h"
#include "app/options.h"
#include "app/verbs.h"
#include "common/check.h"
#include "model/numerics/explain_y.h"
#include "model/result_tensors.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "\nExamples:\n"
    "  moetwin numerics small.json\n"
    "  moetwin numerics small.json --variant sum-bf16 --variant promote-whole --seeds 5\n"
    "  moetwin numerics small.json --plot k.svg --picture k\n"
    "  moetwin numerics small.json --variant reuse-rescale --dump kernel.safetensors\n"
    "  moetwin numerics mine.json --y kernel.safetensors    which variant is it?\n";

struct Options {
  std::string path;
  std::vector<std::string> variants;
  std::vector<std::string> ys;
  std::string seeds = "1";
  std::string threads;
  std::string max_memory;
  std::string plot;
  std::string picture;
  std::string dump;
  bool json = false;
};

/// What --help ends with; lives as long as the parser.
const std::string& variants_help() {
  static const std::string kText = [] {
    std::string text = "Variants:\n";
    for (const numerics::Variant& variant : numerics::all_variants())
      text += fmt::format("  {:<20} {}\n", variant.name, variant.summary);
    return text + kExamples;
  }();
  return kText;
}

void check_combinations(const Options& o, uint64_t seeds) {
  if (!o.picture.empty() && o.plot.empty())
    throw InputError("--picture: says what --plot FILE draws, and no --plot is given");
  if (!o.dump.empty() && o.variants.size() != 1)
    throw InputError(
        fmt::format("--dump: writes the y of one --variant, and {} are given", o.variants.size()));
  if (seeds == 1) return;
  if (!o.ys.empty())
    throw InputError(fmt::format("--y: is compared with one seed; --seeds is {}", seeds));
  if (!o.dump.empty())
    throw InputError(fmt::format("--dump: holds one seed; --seeds is {}", seeds));
}

/// The variant's y, with the inputs and whatever they were before quantisation.
void dump(const Options& o, const NumericsRuns& runs) {
  const NumericsProblem made = numerics_problem(runs.c);
  const auto result = std::find_if(
      runs.seeds[0].begin(), runs.seeds[0].end(),
      [&](const numerics::VariantResult& r) { return r.variant->name == o.variants[0]; });
  LayerResult layer;
  layer.shape = made.problem.shape;
  for (const RankInput& input : made.problem.ranks) layer.tokens.push_back(input.num_tokens);
  layer.y = result->y;
  write_dump(o.dump, made.problem, layer, made.unquantised ? &*made.unquantised : nullptr);
}

std::string repeat_command(const Options& o) {
  CommandText command("numerics");
  command.word(o.path);
  for (const std::string& variant : o.variants) command.option("--variant", variant);
  for (const std::string& y : o.ys) command.option("--y", y);
  return command.given("--threads", o.threads).given("--max-memory", o.max_memory).text();
}

int run(const Options& o) {
  NumericsOptions options;
  options.seeds = read_integer_option("--seeds", o.seeds, 1, kMaxNumericsSeeds);
  options.threads = read_threads(o.threads);
  options.memory_limit = read_max_memory(o.max_memory);
  check_combinations(o, options.seeds);
  std::vector<std::string> names = o.variants;
  const std::string picture = o.picture.empty() ? "errors" : o.picture;
  if (!o.plot.empty()) {
    check_output_path("--plot", o.plot);
    if (names.empty()) names = picture_variants(picture);
    picture_variants(picture);
    check_gnuplot();
  }
  if (!o.dump.empty()) check_output_path("--dump", o.dump);
  const Case c = load_case(o.path);
  const LaunchSpec& launch = c.launches.back();
  uint64_t tokens = 0;
  for (const uint32_t count : launch.tokens) tokens += count;
  std::vector<std::vector<uint16_t>> given;
  for (const std::string& path : o.ys)
    given.push_back(numerics::read_y(path, tokens, launch.shape.hidden));

  const NumericsRuns runs = run_numerics(c, choose_variants(names), options);
  std::vector<NumericsY> ys;
  for (size_t i = 0; i < given.size(); ++i)
    ys.push_back({o.ys[i], numerics::compare_with_y(runs.seeds[0], given[i])});
  if (!o.dump.empty()) dump(o, runs);
  if (!o.plot.empty()) draw_picture(picture, o.plot, runs, options);

  const bool explained =
      std::all_of(ys.begin(), ys.end(), [](const NumericsY& y) { return y.explained(); });
  std::string text = o.json ? numerics_json(runs, ys).dump() + "\n" : numerics_screen(runs, ys);
  if (!explained && !o.json) text += "repeat: " + repeat_command(o) + "\n";
  std::fputs(text.c_str(), stdout);
  return explained ? kExitFine : kExitFinding;
}

}  // namespace

VerbAction add_numerics(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file; its last launch is what runs");
  options.texts("--variant", o->variants,
                "a variant to run beside the contract, any number of times (all)");
  options.text("--seeds", o->seeds,
               "how many seeds, from the case's own on; errors are then means with 95 % confidence "
               "(1)");
  options.texts("--y", o->ys,
                "y [tokens, hidden] computed elsewhere, .safetensors or .npy: which variant gives "
                "these bits?");
  options.text("--dump", o->dump,
               "write the y of the one --variant and the inputs, before quantisation too, as "
               ".safetensors");
  options.text("--plot", o->plot, "write a picture as SVG (needs gnuplot)");
  options.text("--picture", o->picture, "what it shows: " + picture_names() + " (errors)");
  options.text("--threads", o->threads, "threads (all cores); never changes a bit");
  options.text("--max-memory", o->max_memory, "GiB a case may need (80 % of what is free)");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(variants_help().c_str());
  return [o] { return run(*o); };
}

}  // namespace moetwin
