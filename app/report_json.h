// What `moetwin report` shows, as one object: the case, who received what, slot tables, rings over
// time, who waited for what, the run. The page is drawn from it and knows nothing else.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/run_report.h"
#include "cpu_sim/journey.h"
#include "model/case.h"
#include "model/timeline.h"

namespace moetwin {

/// Slot tables of more routed slots than this are left out of a report.
constexpr uint64_t kMostReportedSlots = 4096;

/// A point of a series for each interval of a run, at most.
constexpr uint64_t kReportedIntervals = 400;

struct ReportInput {
  const Case* c = nullptr;
  size_t launch = 0;
  bool timed = false;  ///< times are virtual nanoseconds, not control events
  KernelPlan plan{};
  RunReport run;
  Timeline timeline;                  ///< of all launches
  std::vector<SlotJourney> journeys;  ///< of the launch; none where there are too many
  bool slots = false;                 ///< whether journeys are there
};

/// {case, kernel, launch, clock, span, received, slots, over_time, waits, run};
/// docs/command_line.md has the keys.
nlohmann::ordered_json report_json(const ReportInput& input);

/// The page with `report` in it.
std::string report_html(const nlohmann::ordered_json& report);

}  // namespace moetwin
