#include "app/fuzz_screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "app/arguments.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kPeriod{1};
constexpr const char* kClearLine = "\r\033[K";

double mean_rows(const CampaignState& state) {
  return state.next == 0 ? 0 : static_cast<double>(state.rows) / static_cast<double>(state.next);
}

std::string case_path(const CampaignOptions& o, const CampaignFinding& finding) {
  return (std::filesystem::path(o.out) / "findings" / (finding.file + ".json")).string();
}

std::string repeat_command(const CampaignOptions& o, const CampaignFinding& finding) {
  CommandText command("fuzz");
  command.option("--repeat", finding.draws).option("--profile", o.wide ? "wide" : "small");
  command.option("--left", o.left.name).option("--right", o.right.name);
  command.flag("--no-math", !o.math).given("--plant", o.plant);
  return command.text();
}

}  // namespace

Json campaign_json(const CampaignOptions& o, const CampaignState& state, bool causes) {
  Json json = {{"cases", state.next},
               {"seconds", state.seconds},
               {"findings", state.findings.size()},
               {"rows", state.rows},
               {"mean_rows", mean_rows(state)},
               {"checked", state.checked},
               {"related", state.related},
               {"coverage_pairs", count_pairs(state.signals)},
               {"out", o.out.empty() ? Json(nullptr) : Json(o.out)}};
  if (!causes) return json;
  Json list = Json::array();
  for (const auto& [cause, finding] : state.findings)
    list.push_back({{"class", cause.kind},
                    {"site", cause.site},
                    {"role", cause.role},
                    {"case", finding.index},
                    {"times", finding.times},
                    {"text", finding.text},
                    {"file", o.out.empty() ? Json(nullptr) : Json(case_path(o, finding))},
                    {"repeat", repeat_command(o, finding)}});
  json["causes"] = list;
  return json;
}

std::string campaign_screen(const CampaignOptions& o, const CampaignState& state) {
  std::string text = fmt::format(
      "fuzz       {} against {}, seed {}{}{}\n"
      "cases      {} in {:.1f} s, {:.0f} a second; {:.1f} routed rows each; {} checked, {} held to "
      "a relation\n"
      "coverage   {} pairs of arrival and wait, {} signals; {} cases reached something new\n",
      o.left.name, o.right.name, o.seed, o.math ? "" : ", no arithmetic",
      o.plant.empty() ? "" : ", plant " + o.plant, state.next, state.seconds,
      static_cast<double>(state.next) / std::max(state.seconds, 1e-9), mean_rows(state),
      state.checked, state.related, count_pairs(state.signals), state.signals.count(),
      state.corpus.size());
  if (state.findings.empty()) return text + "findings   none\n";
  for (const auto& [cause, finding] : state.findings) {
    const std::string first = finding.text.substr(0, finding.text.find('\n'));
    text += fmt::format("finding    {} ({} cases, first {})\n           {}\n", cause_text(cause),
                        finding.times, finding.index, first);
    if (!o.out.empty())
      text += fmt::format("           {} --out small.json\n", CommandText("shrink")
                                                                  .word(case_path(o, finding))
                                                                  .flag("--check", finding.checked)
                                                                  .flag("--no-math", !o.math)
                                                                  .text());
    else
      text += "           repeat: " + repeat_command(o, finding) + "\n";
  }
  return text;
}

CampaignTicker::CampaignTicker(const CampaignOptions& options, const CampaignState& start,
                               bool json)
    : options_(options),
      json_(json),
      terminal_(isatty(STDERR_FILENO) != 0),
      first_seconds_(start.seconds),
      first_cases_(start.next) {
  update(start);
  if (json_ || terminal_) ticker_ = std::thread([this] { tick(); });
}

CampaignTicker::~CampaignTicker() {
  if (!ticker_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_signal_.notify_one();
  ticker_.join();
}

void CampaignTicker::update(const CampaignState& state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shown_ = campaign_json(options_, state, false);
  corpus_ = state.corpus.size();
}

std::string CampaignTicker::line() const {
  const double seconds = shown_["seconds"].get<double>() - first_seconds_;
  const uint64_t cases = shown_["cases"].get<uint64_t>();
  return fmt::format(
      "{}fuzz: {} cases, {:.0f} a second, {} findings, {} pairs, {} cases kept, {:.0f} s",
      kClearLine, cases, static_cast<double>(cases - first_cases_) / std::max(seconds, 1e-9),
      shown_["findings"].get<uint64_t>(), shown_["coverage_pairs"].get<uint64_t>(), corpus_,
      shown_["seconds"].get<double>());
}

void CampaignTicker::tick() {
  std::unique_lock<std::mutex> lock(mutex_);
  bool painted = false;
  while (!stop_signal_.wait_for(lock, kPeriod, [this] { return stop_; })) {
    std::fputs(json_ ? (shown_.dump() + "\n").c_str() : line().c_str(), stderr);
    std::fflush(stderr);
    painted = true;
  }
  if (painted && !json_) std::fputs(kClearLine, stderr);
}

}  // namespace moetwin
