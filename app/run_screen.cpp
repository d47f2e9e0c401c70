// The screen of `moetwin run`.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "app/case_checks.h"
#include "app/received.h"
#include "app/run_report.h"
#include "common/step.h"
#include "model/case_reader.h"

namespace moetwin {
namespace {

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string tokens_text(const Case& c) {
  const uint64_t total = std::accumulate(c.tokens.begin(), c.tokens.end(), uint64_t{0});
  for (const uint32_t count : c.tokens)
    if (count != c.tokens.front())
      return fmt::format("{} ranks, {} tokens in all", c.shape.ranks, total);
  return fmt::format("{} ranks x {} tokens", c.shape.ranks, c.tokens.front());
}

/// Text of several lines, moved right as a block.
std::string indented(std::string_view text, std::string_view indent) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out += fmt::format("{}{}\n", indent, text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

/// A paragraph broken at spaces, for text that comes as one long line.
std::string wrapped(std::string_view text, std::string_view indent) {
  constexpr size_t kColumns = 100;
  const size_t room = kColumns - indent.size();
  std::string out;
  while (text.size() > room) {
    const size_t space = text.rfind(' ', room);
    const size_t end = space == std::string_view::npos ? text.find(' ') : space;
    if (end == std::string_view::npos) break;
    out += fmt::format("{}{}\n", indent, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out + fmt::format("{}{}\n", indent, text);
}

std::string digest_lines(const RunReport& report) {
  std::string lines;
  if (!report.math) return "y          none: --no-math leaves every value out\n";
  if (report.digests.empty()) return "y          none: no launch came to its end\n";
  const size_t last = report.digests.size() - 1;
  for (size_t launch = 0; launch < last; ++launch)
    lines += fmt::format("launch {:<3} y {}\n", launch, report.digests[launch].y);
  if (last > 0) lines += fmt::format("launch {} in all its stages:\n", last);
  for (const Stage stage : kStages) {
    const std::string& digest = report.digests.back().of(stage);
    lines += fmt::format("{:<10} {}\n", stage_name(stage), digest.empty() ? "not kept" : digest);
  }
  return lines;
}

std::string reference_lines(const References& references) {
  const ErrorMetrics& e = references.error;
  std::string lines;
  if (!references.compared)
    lines += "naive      is what ran\n";
  else if (references.equal)
    lines += "naive      equal bits at every stage\n";
  else
    lines += "naive      differs:\n" + indented(references.difference, "  ");
  lines += fmt::format(
      "float64    relative RMS {:.3e}, cosine {:.9f}, worst |error| {:.3e} at rank {}, token {}, "
      "column {}\n",
      e.relative_rms, e.cosine, e.max_abs, e.worst_rank, e.worst_token, e.worst_column);
  if (references.relative_rms_total)
    lines += fmt::format("           relative RMS {:.3e} against the tensors before quantisation\n",
                         *references.relative_rms_total);
  if (e.non_finite_result + e.non_finite_reference > 0)
    lines += fmt::format("           left out: {} values of y and {} of the reference not finite\n",
                         e.non_finite_result, e.non_finite_reference);
  return lines;
}

std::string traffic_line(const Traffic& t) {
  return fmt::format(
      "traffic    indices {}, dispatch {}, combine {}; buffers {}; {} rank barriers\n",
      bytes_text(t.index_bytes), bytes_text(t.dispatch_bytes), bytes_text(t.combine_bytes),
      bytes_text(t.buffer_bytes), t.barriers);
}

std::string count_lines(const ProtocolCounts& n) {
  return fmt::format(
      "protocol   {} events, {} rows pulled, {} tiles, {} tokens combined, {} invariants checked, "
      "{} touched\n",
      n.events, n.rows_pulled, n.tiles, n.rows_combined, n.invariants_checked,
      bytes_text(n.peak_bytes));
}

/// What the timed schedule predicts; launch by launch, unless they are many.
std::string timed_lines(const std::vector<uint64_t>& nanoseconds) {
  constexpr size_t kMostLines = 16;
  if (nanoseconds.empty()) return {};
  const auto us = [](uint64_t time) { return static_cast<double>(time) / 1000; };
  if (nanoseconds.size() == 1)
    return fmt::format("predicted  {:.1f} us on an H200\n", us(nanoseconds.front()));
  std::string lines;
  if (nanoseconds.size() <= kMostLines)
    for (size_t launch = 0; launch < nanoseconds.size(); ++launch)
      lines += fmt::format("launch {:<3} predicted {:.1f} us\n", launch, us(nanoseconds[launch]));
  const auto [least, most] = std::minmax_element(nanoseconds.begin(), nanoseconds.end());
  const uint64_t all = std::accumulate(nanoseconds.begin(), nanoseconds.end(), uint64_t{0});
  return lines + fmt::format("predicted  {:.1f} us on an H200, {:.1f} to {:.1f} us a launch\n",
                             us(all), us(*least), us(*most));
}

std::string finding_lines(const RunReport& report) {
  std::string lines;
  for (size_t i = 0; i < report.result.findings.size(); ++i)
    lines += fmt::format("finding {}  {}", i + 1, finding_text(report.result.findings[i]));
  if (report.result.failed()) lines += fmt::format("repeat     {}\n", report.repeat);
  return lines;
}

}  // namespace

std::string case_lines(const Case& c, bool unsafe_ring) {
  const Shape& s = c.shape;
  const KernelPlan plan = plan_of(c, c.launches.back(), unsafe_ring);
  const std::string clamp = c.clamp <= std::numeric_limits<float>::max()
                                ? fmt::format(", activations clamped at {}", c.clamp)
                                : std::string();
  std::string text = fmt::format(
      "case       {}, {} experts, top-{}, hidden {}, intermediate {}, {} routing, {} data{}\n",
      tokens_text(c), s.experts, s.topk, s.hidden, s.intermediate,
      kRoutingKindNames[static_cast<uint32_t>(c.routing.kind)],
      kDataKindNames[static_cast<uint32_t>(c.data.kind)], clamp);
  const bool ring = plan.scheduler == SchedulerPolicy::Ring;
  const std::string order =
      ring ? fmt::format("ring of {} blocks (smallest safe {})", plan.ring_blocks,
                         smallest_safe_ring(s, {plan.block_m, plan.block_n}, plan.sms))
           : fmt::format("waves of {} experts", plan.experts_per_wave);
  return text + fmt::format("kernel     BLOCK_M {}, BLOCK_N {}, {} SMs a rank, {} stages, {}{}\n",
                            plan.block_m, plan.block_n, plan.sms, plan.stages, order,
                            c.launches.size() > 1 ? fmt::format(", {} launches", c.launches.size())
                                                  : std::string());
}

std::string finding_text(const Finding& finding) {
  constexpr std::string_view kIndent = "           ";
  std::string text = finding_class_name(finding.kind);
  if (finding.step != Step::None) text += fmt::format(" at {}", step_name(finding.step));
  if (finding.launch) text += fmt::format(", launch {}", *finding.launch);
  if (!finding.role.empty())
    text += fmt::format(", rank {}, SM {}, {}", finding.rank, finding.sm, finding.role);
  text += "\n";
  std::string_view rest = finding.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    text += wrapped(rest.substr(0, end), kIndent);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  const bool told = finding.text.find(finding.other) != std::string::npos;
  return told ? text : text + wrapped("the other side: " + finding.other, kIndent);
}

std::string run_screen(const Case& c, const RunReport& report) {
  const RunResult& result = report.result;
  const KernelPlan plan = plan_of(c, c.launches.back(), report.unsafe_ring);
  std::string screen = case_lines(c, report.unsafe_ring);
  screen +=
      fmt::format("backend    {}{}, {} threads\n\n", report.backend,
                  report.schedule.empty() ? "" : ", schedule " + report.schedule, result.threads);
  screen += received_table(count_received(c.launches.back(), plan), plan) + "\n";
  screen += digest_lines(report);
  if (report.references) screen += reference_lines(*report.references);
  if (!report.math) screen += count_lines(result.counts);
  if (!result.launches.empty()) screen += traffic_line(result.launches.back().traffic);
  if (!result.schedule_digest.empty())
    screen += fmt::format("schedule   {}\n", result.schedule_digest);
  if (!result.state_digest.empty()) screen += fmt::format("state      {}\n", result.state_digest);
  screen += timed_lines(result.launch_nanoseconds);
  screen += fmt::format("time       {:.3f} s\n", result.seconds);
  if (result.lost_trace_events != 0)
    screen += fmt::format("timeline   lacks {} events: the logs of their agents were full\n",
                          result.lost_trace_events);
  return screen + finding_lines(report);
}

}  // namespace moetwin
