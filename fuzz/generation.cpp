#include "fuzz/generation.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/check.h"
#include "fuzz/campaign_files.h"
#include "fuzz/choices.h"
#include "fuzz/finding_json.h"

namespace moetwin {

void GenerationYield::add(GenerationYield other) {
  rows += other.rows;
  checked += other.checked;
  related += other.related;
  std::move(other.reached.begin(), other.reached.end(), std::back_inserter(reached));
  std::move(other.findings.begin(), other.findings.end(), std::back_inserter(findings));
}

void GenerationYield::sort() {
  const auto by_index = [](const auto& x, const auto& y) { return x.index < y.index; };
  std::sort(reached.begin(), reached.end(), by_index);
  std::sort(findings.begin(), findings.end(), by_index);
}

std::string yield_to_text(const GenerationYield& yield) {
  nlohmann::ordered_json reached = nlohmann::ordered_json::array();
  for (const Reached& one : yield.reached)
    reached.push_back({one.index, signals_to_hex(one.signals), draws_to_string(one.draws)});
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const CampaignFinding& finding : yield.findings) findings.push_back(finding_json(finding));
  return nlohmann::ordered_json{{"rows", yield.rows},       {"checked", yield.checked},
                                {"related", yield.related}, {"stop", yield.stop},
                                {"reached", reached},       {"findings", findings}}
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

GenerationYield yield_from_text(const std::string& text) {
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    GenerationYield yield;
    yield.rows = json.at("rows").get<uint64_t>();
    yield.checked = json.at("checked").get<uint64_t>();
    yield.related = json.at("related").get<uint64_t>();
    yield.stop = json.at("stop").get<bool>();
    for (const auto& one : json.at("reached")) {
      Choices draws = parse_choices("draws", one.at(2).get<std::string>());
      yield.reached.push_back({one.at(0).get<uint64_t>(),
                               signals_from_hex(one.at(1).get<std::string>()), draws.given()});
    }
    for (const auto& one : json.at("findings")) yield.findings.push_back(finding_from_json(one));
    return yield;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(std::string("peers: a generation cannot be read: ") + error.what());
  }
}

}  // namespace moetwin
