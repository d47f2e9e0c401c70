// bench timed: what the timed schedule predicts for launches that were measured on a card.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "app/bench.h"
#include "app/progress.h"
#include "cpu_sim/measured_launches.h"
#include "cpu_sim/timed_launch.h"

namespace moetwin {
namespace {

struct Prediction {
  MeasuredLaunch measured;
  double microseconds = 0;
  double ratio() const { return microseconds / measured.microseconds; }
  const MeasuredLayer& layer() const { return kMeasuredLayers[measured.layer]; }
  bool claimed() const { return is_claimed(measured); }
};

/// The largest distance of a ratio from 1 among the claimed launches of layers that were fitted, or
/// of those that were not.
double worst(const std::vector<Prediction>& predictions, bool fitted) {
  double most = 0;
  for (const Prediction& p : predictions)
    if (p.claimed() && p.layer().fitted == fitted) most = std::max(most, std::abs(p.ratio() - 1));
  return most;
}

/// A plot with both axes logarithmic: lines are predictions, dots are measurements.
std::string plot(const std::vector<Prediction>& predictions) {
  constexpr double kWidth = 640;
  constexpr double kHeight = 420;
  const auto x = [&](double tokens) { return 60 + (kWidth - 140) * std::log2(tokens) / 13; };
  const auto y = [&](double us) {
    return kHeight - 40 - (kHeight - 60) * std::log10(us / 50) / 2.5;
  };
  constexpr const char* kColors[] = {"#2464b4", "#c2571a"};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"white\"/>\n",
      kWidth, kHeight);
  for (const double us : {100.0, 300.0, 1000.0, 3000.0, 10000.0})
    svg += fmt::format(
        "<line x1=\"60\" x2=\"{0}\" y1=\"{1:.1f}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"54\" y=\"{2:.1f}\" text-anchor=\"end\">{3}</text>\n",
        kWidth - 70, y(us), y(us) + 4, us);
  for (const double tokens : {1.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0})
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(tokens),
                       kHeight - 22, tokens);
  svg += fmt::format(
      "<text x=\"60\" y=\"14\">us a launch: measured (dots), timed schedule (lines)"
      "</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">tokens</text>\n",
      kWidth - 70, kHeight - 6);
  for (uint32_t layer = 0; layer < std::size(kMeasuredLayers); ++layer) {
    std::string line;
    for (const Prediction& p : predictions) {
      if (p.measured.layer != layer) continue;
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x(p.measured.tokens),
                          y(p.microseconds));
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n",
                         x(p.measured.tokens), y(p.measured.microseconds), kColors[layer]);
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", line, kColors[layer]);
    const Prediction& last =
        *std::find_if(predictions.rbegin(), predictions.rend(),
                      [&](const Prediction& p) { return p.measured.layer == layer; });
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n",
                       x(last.measured.tokens) + 8, y(last.microseconds) + 4, kColors[layer],
                       kMeasuredLayers[layer].name);
  }
  return svg + "</svg>\n";
}

}  // namespace

BenchReport bench_timed() {
  std::vector<Prediction> predictions;
  {
    Progress progress("bench timed", std::size(kMeasuredLaunches));
    for (const MeasuredLaunch& launch : kMeasuredLaunches) {
      const TimedRun run = run_timed(measured_case(launch));
      predictions.push_back({launch, static_cast<double>(run.nanoseconds) / 1000});
      progress.advance();
    }
  }
  BenchReport report;
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  report.text = "layer  tokens  measured us  timed us  ratio\n";
  for (const Prediction& p : predictions) {
    report.text += fmt::format("{:5}  {:6}  {:11.1f}  {:8.1f}  {:5.2f}{}\n", p.layer().name,
                               p.measured.tokens, p.measured.microseconds, p.microseconds,
                               p.ratio(), p.claimed() ? "" : "  (not claimed)");
    points.push_back({{"layer", p.layer().name},
                      {"tokens", p.measured.tokens},
                      {"measured_us", p.measured.microseconds},
                      {"timed_us", p.microseconds},
                      {"ratio", p.ratio()},
                      {"fitted", p.layer().fitted},
                      {"claimed", p.claimed()}});
  }
  report.text += fmt::format(
      "timed         from {} tokens on within {:.1f} % on the layer it was fitted on, within "
      "{:.1f} "
      "% on the other\n",
      kFewestPredictedTokens, 100 * worst(predictions, true), 100 * worst(predictions, false));
  report.json = {{"points", points},
                 {"worst_fitted", worst(predictions, true)},
                 {"worst_held_out", worst(predictions, false)}};
  report.svg = plot(predictions);
  return report;
}

}  // namespace moetwin
