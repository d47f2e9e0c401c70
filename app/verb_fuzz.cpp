// fuzz: a campaign of random cases on two backends, and single cases of one again.
#include <fmt/format.h>
#include <omp.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/card_ranks.h"
#include "app/fuzz_screen.h"
#include "app/mpi_peers.h"
#include "app/options.h"
#include "app/verbs.h"
#include "common/check.h"
#include "fuzz/campaign.h"
#include "fuzz/campaign_files.h"
#include "fuzz/choices.h"
#include "fuzz/generator.h"
#include "fuzz/plants.h"
#include "model/case.h"

namespace moetwin {
namespace {

constexpr uint64_t kMaxCases = 1'000'000'000'000;
constexpr uint64_t kMaxSeconds = 10'000'000;

constexpr const char* kExamples =
    "A finding is a case file in DIR/findings with a text beside it; docs/fuzzing.md says how to "
    "go\n"
    "on from there. The same seed gives the same findings whatever --jobs and mpirun -n are.\n"
    "Recorded expert loads derive from allenai/OLMoE (Apache-2.0), N. Muennighoff et al., 2024.\n\n"
    "Examples:\n"
    "  moetwin fuzz --seconds 60 --seed 1 --out found\n"
    "  moetwin fuzz --resume found --seconds 600\n"
    "  moetwin fuzz --left sim --right gpu --cases 100000 --seed 2 --out card --jobs 14\n"
    "  moetwin fuzz --no-math --check 1 --profile wide --cases 10000 --seed 3 --out checked\n"
    "  moetwin fuzz --plant F21b --seconds 60 --seed 4 --check 1 --out planted\n"
    "  moetwin fuzz --repeat seed:1:77\n"
    "  mpirun -n 8 moetwin fuzz --cases 1000000 --seed 5 --jobs 4 --out many\n";

struct Options {
  std::string left = "sim";
  std::string right = "naive";
  std::string cases;
  std::string seconds;
  std::string seed = "1";
  std::string jobs;
  std::string out;
  std::string resume;
  std::string profile = "small";
  std::string check;
  std::string relations;
  std::string plant;
  std::string repeat;
  bool no_math = false;
  bool no_feedback = false;
  bool first = false;
  bool json = false;
};

double read_share(const std::string& option, const std::string& text, double standard) {
  if (text.empty()) return standard;
  size_t end = 0;
  double share = -1;
  try {
    share = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != text.size() || !(share >= 0 && share <= 1))
    throw InputError(
        fmt::format("{}: '{}' is not a share from 0 to 1", option, text.substr(0, 40)));
  return share;
}

/// A backend as the campaign takes it. A card runs one case at a time.
FuzzSide side_of(const std::string& option, const std::string& name) {
  const Backend& backend = find_backend(option, name);
  FuzzSide side{backend.name};
  if (!backend.on_card) return side;
  const auto mutex = std::make_shared<std::mutex>();
  const BackendRun run = open_backend(backend, CardRanks{});
  side.run = [mutex, run](const Case& c, const RunOptions& options) {
    const std::lock_guard<std::mutex> lock(*mutex);
    return run(c, options);
  };
  return side;
}

void read_sides(CampaignOptions& options, const std::string& left, const std::string& right) {
  options.left = side_of("--left", left);
  options.right = side_of("--right", right);
  const bool simulated = options.left.simulated() || options.right.simulated();
  if (!options.math && !simulated)
    throw InputError("--no-math: neither side is sim, which alone can leave arithmetic out");
  if (!options.plant.empty() && !simulated)
    throw InputError("--plant: neither side is sim, which alone has planted faults");
}

bool read_profile(const std::string& name) {
  if (name != "small" && name != "wide")
    throw InputError(fmt::format("--profile: '{}' is none of small, wide", name.substr(0, 40)));
  return name == "wide";
}

CampaignOptions read_options(const Options& o) {
  CampaignOptions options;
  options.seed = read_integer_option("--seed", o.seed, 0, INT64_MAX);
  options.wide = read_profile(o.profile);
  options.feedback = !o.no_feedback;
  options.check = read_share("--check", o.check, options.check);
  options.relations = read_share("--relations", o.relations, options.relations);
  options.plant = o.plant;
  options.math = !o.no_math;
  options.out = o.out;
  if (!o.plant.empty() && !is_plant(o.plant))
    throw InputError(fmt::format("--plant: '{}' is not a planted fault (moetwin faults --list)",
                                 o.plant.substr(0, 60)));
  return options;
}

void read_limits(const Options& o, CampaignOptions& options) {
  if (o.cases.empty() && o.seconds.empty())
    throw InputError("--cases: give --cases N, --seconds S or both");
  if (!o.cases.empty()) options.cases = read_integer_option("--cases", o.cases, 1, kMaxCases);
  if (!o.seconds.empty())
    options.seconds =
        static_cast<double>(read_integer_option("--seconds", o.seconds, 1, kMaxSeconds));
  options.first_only = o.first;
  const uint32_t jobs = read_threads(o.jobs);
  options.jobs = jobs != 0 ? jobs : static_cast<uint32_t>(omp_get_max_threads());
}

/// One case by its draws: the case file on standard output, the verdict behind it.
int repeat_case(const Options& o) {
  CampaignOptions options = read_options(o);
  read_sides(options, o.left, o.right);
  Choices draw = parse_choices("--repeat", o.repeat);
  Case c = draw_case(draw, options.wide ? wide_profile() : small_profile());
  c.plant = options.plant;
  JudgeOptions judge;
  judge.left = options.left;
  judge.right = options.right;
  judge.math = options.math;
  judge.check = options.check > 0;
  const Judged judged = judge_case(c, judge);
  const int status = judged.cause.none() ? kExitFine : kExitFinding;
  if (o.json) {
    const nlohmann::ordered_json out = {{"case", nlohmann::ordered_json::parse(case_to_json(c))},
                                        {"class", judged.cause.kind},
                                        {"site", judged.cause.site},
                                        {"role", judged.cause.role},
                                        {"text", judged.finding.text},
                                        {"coverage_pairs", count_pairs(judged.signals)},
                                        {"signals", signals_to_hex(judged.signals)}};
    std::fputs((out.dump() + "\n").c_str(), stdout);
    return status;
  }
  std::fputs(case_to_json(c).c_str(), stdout);
  std::fputs(fmt::format("{}{}\n", judged.cause.none() ? "no finding" : cause_text(judged.cause),
                         judged.cause.none() ? "" : "\n" + judged.finding.text)
                 .c_str(),
             stderr);
  return status;
}

int fuzz(const Options& o) {
  if (!o.repeat.empty()) return repeat_case(o);
  CampaignOptions options = read_options(o);
  CampaignState state;
  if (!o.resume.empty()) {
    if (!o.out.empty()) throw InputError("--out: --resume goes on in its own directory");
    state = load_campaign(o.resume, options);
  }
  read_limits(o, options);
  const std::string left = o.resume.empty() ? o.left : options.left.name;
  const std::string right = o.resume.empty() ? o.right : options.right.name;
  read_sides(options, left, right);
  const bool begins = o.resume.empty() && !o.out.empty();
  if (begins) check_campaign_directory(o.out);
  // From here on a mistake would take all processes down: what can be refused has been.
  const std::unique_ptr<StartedPeers> peers = started_peers();
  const bool first = peers->rank() == 0;
  peers->exchange("");  // all have looked
  if (first && begins) begin_campaign_directory(o.out);
  peers->exchange("");  // nobody writes before the directory is there
  {
    std::unique_ptr<CampaignTicker> ticker;
    if (first) ticker = std::make_unique<CampaignTicker>(options, state, o.json);
    run_campaign(options, *peers, state, [&](const CampaignState& now) {
      if (ticker) ticker->update(now);
    });
  }
  peers->finish();
  if (first) {
    const std::string text = o.json ? campaign_json(options, state, true).dump() + "\n"
                                    : campaign_screen(options, state);
    std::fputs(text.c_str(), stdout);
  }
  return state.findings.empty() ? kExitFine : kExitFinding;
}

}  // namespace

VerbAction add_fuzz(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.text("--left", o->left, "one side: sim, naive or gpu (sim)");
  options.text("--right", o->right, "the other (naive)");
  options.text("--cases", o->cases, "end after so many cases, those before a --resume included");
  options.text("--seconds", o->seconds, "end after so many seconds");
  options.text("--seed", o->seed, "what all cases follow from (1)");
  options.text("--jobs", o->jobs, "cases at a time (all cores); never changes a finding");
  options.text("--out", o->out, "directory for findings and state");
  options.text("--resume", o->resume, "go on with the campaign in this directory");
  options.text("--profile", o->profile,
               "small (4 ranks, 16 experts, sizes 128 and 256) or wide (small)");
  options.text("--check", o->check, "share of cases that the checker watches (0.05)");
  options.text("--relations", o->relations,
               "share of cases that are run once more, changed so that y must not (0.05)");
  options.text("--plant", o->plant, "a planted fault or mutant, switched on in every case");
  options.text("--repeat", o->repeat, "one case again: seed:SEED:INDEX or draws:A.B.C");
  options.flag("--no-math", o->no_math, "the protocol alone, with payload tags");
  options.flag("--first", o->first, "end with the generation of the first finding");
  options.flag("--no-feedback", o->no_feedback, "draw every case afresh");
  options.flag("--json", o->json,
               "an object a second on standard error, the last on standard output");
  options.examples(kExamples);
  return [o] { return fuzz(*o); };
}

}  // namespace moetwin
