// Findings of a campaign as JSON, the one form of state file and peers. Internal to fuzz/: only its
// .cpp files include it.
#pragma once

#include <nlohmann/json.hpp>

#include "fuzz/campaign.h"

namespace moetwin {

nlohmann::ordered_json finding_json(const CampaignFinding& finding);
/// Throws the JSON library's exceptions.
CampaignFinding finding_from_json(const nlohmann::ordered_json& json);

}  // namespace moetwin
