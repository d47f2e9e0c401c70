// What a campaign leaves on disk, each file whole or not at all: findings as case files with a text
// beside them, written when they are found, and the state from which --resume goes on. Formats
// only; when to write is the campaign's business.
//
//   DIR/campaign.json          state and options
//   DIR/findings/CAUSE.json    the first case with that cause
//   DIR/findings/CAUSE.txt     the finding in words and the commands that repeat it
#pragma once

#include <string>

#include "fuzz/campaign.h"

namespace moetwin {

/// Throws InputError where DIR holds a campaign already or could not be made. Makes nothing.
void check_campaign_directory(const std::string& directory);
/// Makes DIR, with the same checks.
void begin_campaign_directory(const std::string& directory);

/// File name of a cause, without an ending.
std::string cause_file(const Cause& cause);

/// Writes case and text of a finding. Throws InputError.
void write_finding(const CampaignOptions& options, const CampaignFinding& finding, const Case& c);

/// Writes the state. Throws InputError.
void save_campaign(const CampaignOptions& options, const CampaignState& state);

/// Reads it, and into `options` what decides how the campaign goes on (all but jobs, cases and
/// seconds; of the sides the names). Throws InputError.
CampaignState load_campaign(const std::string& directory, CampaignOptions& options);

}  // namespace moetwin
