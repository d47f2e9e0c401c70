// The JSON object of `moetwin run`.
#include "app/run_report.h"
#include "common/step.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json error_json(const References& references) {
  const ErrorMetrics& e = references.error;
  const Json total =
      references.relative_rms_total ? Json(*references.relative_rms_total) : Json(nullptr);
  return {{"relative_rms", e.relative_rms},
          {"relative_rms_total", total},
          {"max_abs", e.max_abs},
          {"worst", {{"rank", e.worst_rank}, {"token", e.worst_token}, {"column", e.worst_column}}},
          {"cosine", e.cosine},
          {"calc_diff", e.calc_diff},
          {"non_finite_result", e.non_finite_result},
          {"non_finite_reference", e.non_finite_reference},
          {"equal_to_naive", references.compared ? Json(references.equal) : Json(nullptr)}};
}

Json traffic_json(const RunResult& result) {
  if (result.launches.empty()) return nullptr;
  const Traffic& t = result.launches.back().traffic;
  return {{"index_bytes", t.index_bytes},
          {"dispatch_bytes", t.dispatch_bytes},
          {"combine_bytes", t.combine_bytes},
          {"buffer_bytes", t.buffer_bytes},
          {"barriers", t.barriers}};
}

}  // namespace

Json stages_json(const StageDigests& digests, bool with_y) {
  Json stages = Json::object();
  for (const Stage stage : kStages)
    if (stage != Stage::Y || with_y) stages[stage_name(stage)] = text_or_null(digests.of(stage));
  return stages;
}

Json findings_json(const std::vector<Finding>& findings, const std::string& repeat) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"class", finding_class_name(finding.kind)},
                    {"step", step_name(finding.step)},
                    {"rank", finding.rank},
                    {"sm", finding.sm},
                    {"role", finding.role},
                    {"text", finding.text},
                    {"other", text_or_null(finding.other)},
                    {"repeat", repeat}});
    if (finding.launch) list.back()["launch"] = *finding.launch;
  }
  return list;
}

Json run_json(const RunReport& report) {
  const RunResult& result = report.result;
  const StageDigests last = report.digests.empty() ? StageDigests{} : report.digests.back();
  Json launches = Json::array();
  for (const StageDigests& digests : report.digests)
    launches.push_back({{"y", text_or_null(digests.y)}, {"stages", stages_json(digests, false)}});
  Json out = {{"backend", report.backend},
              {"y", text_or_null(last.y)},
              {"stages", stages_json(last, false)},
              {"launches", launches},
              {"schedule", text_or_null(result.schedule_digest)},
              {"schedule_string", text_or_null(result.schedule_string)},
              {"state", text_or_null(result.state_digest)},
              {"seconds", result.seconds},
              {"threads", result.threads},
              {"error", report.references ? error_json(*report.references) : Json(nullptr)},
              {"findings", findings_json(result.findings, report.repeat)},
              {"traffic", traffic_json(result)}};
  if (!result.launch_nanoseconds.empty()) {
    out["timed_us"] = Json::array();
    for (const uint64_t nanoseconds : result.launch_nanoseconds)
      out["timed_us"].push_back(static_cast<double>(nanoseconds) / 1000);
  }
  if (report.math) return out;
  const ProtocolCounts& counts = result.counts;
  out["events"] = counts.events;
  out["rows_pulled"] = counts.rows_pulled;
  out["tiles"] = counts.tiles;
  out["rows_combined"] = counts.rows_combined;
  out["invariants_checked"] = counts.invariants_checked;
  out["peak_bytes"] = counts.peak_bytes;
  return out;
}

}  // namespace moetwin
