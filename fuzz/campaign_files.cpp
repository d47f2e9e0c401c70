#include "fuzz/campaign_files.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/check.h"
#include "fuzz/choices.h"
#include "fuzz/finding_json.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint32_t kCampaignFormat = 1;
constexpr const char* kStateName = "campaign.json";

std::string state_path(const std::string& directory) {
  return (fs::path(directory) / kStateName).string();
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path))
    throw InputError(fmt::format("--out: '{}' cannot be made a directory", path.string()));
}

std::string dumped(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The words of a finding and what to type next.
std::string finding_text_file(const CampaignOptions& o, const CampaignFinding& f) {
  const std::string path = (fs::path(o.out) / "findings" / (f.file + ".json")).string();
  std::string text = fmt::format("{}\n\n{}\n\n", cause_text(f.cause), f.text);
  text += fmt::format("first in case {} of seed {}\n", f.index, o.seed);
  text += fmt::format("repeat: moetwin fuzz --repeat {} --profile {} --left {} --right {}{}{}\n",
                      f.draws, o.wide ? "wide" : "small", o.left.name, o.right.name,
                      o.math ? "" : " --no-math",
                      o.plant.empty() ? "" : fmt::format(" --plant '{}'", o.plant));
  if (o.math)
    text += fmt::format("or:     moetwin diff {} --left {} --right {}{}\n", path, o.left.name,
                        o.right.name, f.checked ? " --check" : "");
  else
    text += fmt::format("or:     moetwin run {} --no-math{}\n", path, f.checked ? " --check" : "");
  text += fmt::format("smaller: moetwin shrink {}{}{} --out {}.small.json\n", path,
                      f.checked ? " --check" : "", o.math ? "" : " --no-math", f.file);
  return text;
}

}  // namespace

Json finding_json(const CampaignFinding& f) {
  return {{"kind", f.cause.kind}, {"site", f.cause.site}, {"role", f.cause.role},
          {"index", f.index},     {"times", f.times},     {"checked", f.checked},
          {"file", f.file},       {"text", f.text},       {"draws", f.draws}};
}

CampaignFinding finding_from_json(const Json& json) {
  CampaignFinding f;
  f.cause = {json.at("kind").get<std::string>(), json.at("site").get<std::string>(),
             json.at("role").get<std::string>()};
  f.index = json.at("index").get<uint64_t>();
  f.times = json.at("times").get<uint64_t>();
  f.checked = json.at("checked").get<bool>();
  f.file = json.at("file").get<std::string>();
  f.text = json.at("text").get<std::string>();
  f.draws = json.at("draws").get<std::string>();
  return f;
}

void check_campaign_directory(const std::string& directory) {
  std::error_code error;
  if (fs::exists(state_path(directory), error))
    throw InputError(
        fmt::format("--out: '{}' holds a campaign already; --resume goes on with it", directory));
  if (fs::exists(directory, error) && !fs::is_directory(directory, error))
    throw InputError(fmt::format("--out: '{}' is no directory", directory));
}

void begin_campaign_directory(const std::string& directory) {
  check_campaign_directory(directory);
  make_directory(fs::path(directory) / "findings");
}

std::string cause_file(const Cause& cause) {
  std::string name;
  for (const std::string& part : {cause.kind, cause.site, cause.role}) {
    if (part.empty()) continue;
    if (!name.empty()) name += '-';
    for (const char c : part) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

void write_finding(const CampaignOptions& options, const CampaignFinding& finding, const Case& c) {
  const fs::path stem = fs::path(options.out) / "findings" / finding.file;
  write_file(stem.string() + ".txt", finding_text_file(options, finding), "--out");
  save_case(c, stem.string() + ".json");
}

void save_campaign(const CampaignOptions& o, const CampaignState& state) {
  Json corpus = Json::array();
  for (const std::vector<uint64_t>& draws : state.corpus) corpus.push_back(draws_to_string(draws));
  Json findings = Json::array();
  for (const auto& entry : state.findings) findings.push_back(finding_json(entry.second));
  const Json json = {{"format", kCampaignFormat},
                     {"seed", o.seed},
                     {"profile", o.wide ? "wide" : "small"},
                     {"feedback", o.feedback},
                     {"check", o.check},
                     {"relations", o.relations},
                     {"plant", o.plant},
                     {"left", o.left.name},
                     {"right", o.right.name},
                     {"math", o.math},
                     {"next", state.next},
                     {"rows", state.rows},
                     {"checked", state.checked},
                     {"related", state.related},
                     {"seconds", state.seconds},
                     {"signals", signals_to_hex(state.signals)},
                     {"findings", findings},
                     {"corpus", corpus}};
  write_file(state_path(o.out), dumped(json), "--out");
}

CampaignState load_campaign(const std::string& directory, CampaignOptions& o) {
  const std::string path = state_path(directory);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("--resume: there is no campaign '{}'", path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  try {
    const Json json = Json::parse(text);
    if (json.at("format").get<uint32_t>() != kCampaignFormat)
      throw InputError(fmt::format("--resume: format of '{}' is not {}", path, kCampaignFormat));
    o.seed = json.at("seed").get<uint64_t>();
    o.wide = json.at("profile").get<std::string>() == "wide";
    o.feedback = json.at("feedback").get<bool>();
    o.check = json.at("check").get<double>();
    o.relations = json.at("relations").get<double>();
    o.plant = json.at("plant").get<std::string>();
    o.left = FuzzSide{json.at("left").get<std::string>()};
    o.right = FuzzSide{json.at("right").get<std::string>()};
    o.math = json.at("math").get<bool>();
    o.out = directory;
    CampaignState state;
    state.next = json.at("next").get<uint64_t>();
    state.rows = json.at("rows").get<uint64_t>();
    state.checked = json.at("checked").get<uint64_t>();
    state.related = json.at("related").get<uint64_t>();
    state.seconds = json.at("seconds").get<double>();
    state.signals = signals_from_hex(json.at("signals").get<std::string>());
    for (const Json& draws : json.at("corpus"))
      state.corpus.push_back(parse_choices("corpus", draws.get<std::string>()).given());
    for (const Json& one : json.at("findings")) {
      CampaignFinding finding = finding_from_json(one);
      state.findings.emplace(finding.cause, finding);
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("--resume: '{}' is no campaign: {}", path, error.what()));
  }
}

}  // namespace moetwin
