// What a campaign shows while it lasts and at its end: a line that rewrites itself on a terminal,
// an object a second for --json, and the summary. It decides nothing about the campaign.
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "fuzz/campaign.h"

namespace moetwin {

/// The object of `fuzz --json` (DESIGN section 7), with a list of causes behind it where `causes`.
nlohmann::ordered_json campaign_json(const CampaignOptions& options, const CampaignState& state,
                                     bool causes);

/// The last screen: totals, and each cause with its file and the commands to go on with.
std::string campaign_screen(const CampaignOptions& options, const CampaignState& state);

/// Once a second to standard error: JSON where `json`, else one line on a terminal, else nothing.
class CampaignTicker {
 public:
  CampaignTicker(const CampaignOptions& options, const CampaignState& start, bool json);
  ~CampaignTicker();
  CampaignTicker(const CampaignTicker&) = delete;
  CampaignTicker& operator=(const CampaignTicker&) = delete;

  /// What the next tick shows. Any thread.
  void update(const CampaignState& state);

 private:
  void tick();
  std::string line() const;

  const CampaignOptions& options_;
  bool json_;
  bool terminal_;
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stop_ = false;
  nlohmann::ordered_json shown_;
  double first_seconds_;
  uint64_t first_cases_;
  uint64_t corpus_ = 0;
  std::thread ticker_;
};

}  // namespace moetwin
