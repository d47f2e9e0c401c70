#include "app/numerics_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/gnuplot.h"
#include "common/check.h"

namespace moetwin {
namespace {

using numerics::BenchStage;
using numerics::VariantResult;

constexpr const char* kAxes =
    "set border 3\nset tics nomirror out\nset grid lc rgb '#dddddd'\nset key outside right top\n"
    "set format y '10^{%T}'\n";

/// A named line: what gnuplot calls a data block.
struct Line {
  std::string title;
  std::vector<std::pair<double, double>> points;
};

std::string data_blocks(const std::vector<Line>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("$line{} << EOD\n", i);
    for (const auto& [x, y] : lines[i].points) text += fmt::format("{} {:.6g}\n", x, y);
    text += "EOD\n";
  }
  return text;
}

/// Lines differ in mark and dash too, so that they are told apart in print.
std::string plot_lines(const std::vector<Line>& lines, const std::string& style) {
  constexpr int kMarks[] = {7, 9, 5, 11, 13, 6, 8, 4, 10, 12};
  constexpr const char* kColours[] = {"#1f4e79", "#c0504d", "#4f8f3a", "#8064a2", "#d98a1f",
                                      "#2c9fb0", "#7f7f7f", "#000000", "#b0479b", "#6b4f2a"};
  std::string text = "plot ";
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t kind = i % std::size(kMarks);
    const std::string mark = style == "steps" ? "" : fmt::format("pt {} ps 0.8", kMarks[kind]);
    const std::string dash = style == "points" ? "" : fmt::format("dt {}", i % 4 + 1);
    text +=
        fmt::format("{}$line{} using 1:2 with {} {} {} lc rgb '{}' title {}", i == 0 ? "" : ", ", i,
                    style, mark, dash, kColours[kind], gnuplot_text(lines[i].title));
  }
  return text + "\n";
}

/// Only what a logarithmic axis can show.
void add_point(Line& line, double x, double y) {
  if (std::isfinite(y) && y > 0) line.points.emplace_back(x, y);
}

void drop_empty(std::vector<Line>& lines) {
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](const Line& line) { return line.points.empty(); }),
              lines.end());
  if (lines.empty()) throw InputError("--plot: nothing to draw, every error is zero or not finite");
}

void draw_lines(const std::string& path, const std::string& axes, std::vector<Line> lines) {
  drop_empty(lines);
  write_svg(path, data_blocks(lines) + kAxes + axes + plot_lines(lines, "linespoints"), 820, 460);
}

/// The case with its last launch alone, to be varied; a file's tensors have one shape only.
Case one_launch(const NumericsRuns& runs, const std::string& kind) {
  Case c = runs.c;
  if (c.data.kind == DataKind::File)
    throw InputError(
        fmt::format("--picture: '{}' varies the case, so data.kind cannot be file", kind));
  c.shape = c.launches.back().shape;
  c.tokens = c.launches.back().tokens;
  c.routing = c.launches.back().routing;
  set_launches(c, 1);
  return c;
}

NumericsRuns run_quietly(const Case& c, const std::vector<const numerics::Variant*>& variants,
                         NumericsOptions options) {
  options.show_progress = false;
  return run_numerics(c, variants, options);
}

std::vector<Line> variant_lines(const NumericsRuns& runs) {
  std::vector<Line> lines;
  for (const numerics::Variant* variant : runs.variants) lines.push_back({variant->name, {}});
  return lines;
}

/// Linear1 of one expert and a few tokens, K from 128 to 8192.
void draw_k(const std::string& path, const NumericsRuns& runs, const NumericsOptions& options) {
  Case c = one_launch(runs, "k");
  c.routing = {};
  c.tokens = {16};
  std::vector<Line> lines = variant_lines(runs);
  for (uint32_t k = 128; k <= 8192; k *= 2) {
    c.shape = {1, 1, 1, k, 128, 16};
    set_launches(c, 1);
    const NumericsRuns at_k = run_quietly(c, runs.variants, options);
    for (size_t i = 0; i < lines.size(); ++i)
      add_point(lines[i], k, seed_mean(at_k, i, [](const VariantResult& r) {
                               return r.stage(BenchStage::Linear1).relative_rms();
                             }).mean);
  }
  draw_lines(path,
             "set logscale xy\nset xtics (128,256,512,1024,2048,4096,8192)\nset xrange [110:9600]\n"
             "set xlabel 'K: channels of the product'\n"
             "set ylabel 'relative RMS error of Linear1, same codes'\n",
             lines);
}

/// Every data kind that has a distribution, through the four widths of a scale group.
void draw_groups(const std::string& path, const NumericsRuns& runs,
                 const NumericsOptions& options) {
  Case c = one_launch(runs, "groups");
  struct Kind {
    DataKind kind;
    const char* name;
  };
  std::vector<Line> lines;
  for (const Kind& kind :
       {Kind{DataKind::Normal, "normal"}, Kind{DataKind::SameSign, "same sign"},
        Kind{DataKind::HeavyTail, "heavy tail"}, Kind{DataKind::Outlier, "outlier channels"}}) {
    c.data.kind = kind.kind;
    set_launches(c, 1);
    const NumericsRuns of_kind = run_quietly(
        c, choose_variants({"group-32", "group-64", "group-128", "group-row"}), options);
    lines.push_back({kind.name, {}});
    for (size_t i = 1; i < of_kind.variants.size(); ++i)
      add_point(lines.back(), static_cast<double>(i),
                seed_mean(of_kind, i, [](const VariantResult& r) {
                  return r.total->relative_rms();
                }).mean);
  }
  draw_lines(path,
             "set logscale y\nset xrange [0.7:4.3]\n"
             "set xtics ('32' 1, '64' 2, '128' 3, 'row' 4)\nset mytics 10\nset format y '%.2g'\n"
             "set xlabel 'channels that share an activation scale'\n"
             "set ylabel 'relative RMS error of y, unquantised tensors'\n",
             lines);
}

/// The sum over slots alone, from one slot to as many as there are experts, at most 32.
void draw_slots(const std::string& path, const NumericsRuns& runs, const NumericsOptions& options) {
  Case c = one_launch(runs, "slots");
  std::vector<Line> lines = variant_lines(runs);
  const uint32_t most = std::min(c.shape.experts, kMaxTopk);
  c.routing = {};
  for (uint32_t topk = 1; topk <= most; topk *= 2) {
    c.shape.topk = topk;
    set_launches(c, 1);
    const NumericsRuns at_topk = run_quietly(c, runs.variants, options);
    for (size_t i = 0; i < lines.size(); ++i)
      add_point(lines[i], topk, seed_mean(at_topk, i, [](const VariantResult& r) {
                                  return r.stage(BenchStage::Combine).relative_rms();
                                }).mean);
  }
  draw_lines(path,
             "set logscale x 2\nset logscale y\nset xrange [0.9:36]\n"
             "set xlabel 'routed slots of a token'\n"
             "set ylabel 'relative RMS error of the sum over slots'\n",
             lines);
}

void draw_errors(const std::string& path, const NumericsRuns& runs) {
  std::vector<Line> lines = {
      {"same codes", {}}, {"requantisation repeated", {}}, {"unquantised tensors", {}}};
  const size_t count = runs.variants.size();
  std::string names;
  for (size_t i = 0; i < count; ++i) {
    const auto height = static_cast<double>(count - i);
    names += fmt::format("{}{} {}", i == 0 ? "" : ", ", "'" + runs.variants[i]->name + "'", height);
    const auto add = [&](Line& line, auto value) {
      add_point(line, 0, seed_mean(runs, i, value).mean);
      if (!line.points.empty() && line.points.back().first == 0)
        line.points.back() = {line.points.back().second, height};
    };
    add(lines[0], [](const VariantResult& r) { return r.stage(BenchStage::Y).relative_rms(); });
    add(lines[1], [](const VariantResult& r) { return r.requantised.relative_rms(); });
    if (runs.seeds[0][i].total)
      add(lines[2], [](const VariantResult& r) { return r.total->relative_rms(); });
  }
  drop_empty(lines);
  write_svg(
      path,
      data_blocks(lines) + kAxes +
          fmt::format(
              "unset format\nset logscale x\nset format x '10^{{%T}}'\n"
              "set ytics ({})\nset yrange [0.3:{}]\n"
              "set xlabel 'relative RMS error of y'\nset key outside bottom center horizontal\n",
              names, static_cast<double>(count) + 0.7) +
          plot_lines(lines, "points"),
      820, 110 + 19 * static_cast<int>(count));
}

/// How often each code of Linear1's output occurs, signs together.
void draw_codes(const std::string& path, const NumericsRuns& runs) {
  std::vector<Line> lines = variant_lines(runs);
  for (size_t i = 0; i < lines.size(); ++i) {
    const VariantResult& r = runs.seeds[0][i];
    for (size_t code = 0; code < 128; ++code) {
      const auto times = static_cast<double>(r.l1_codes[code] + r.l1_codes[code + 128]);
      lines[i].points.emplace_back(static_cast<double>(code),
                                   100 * times / static_cast<double>(r.l1.values));
    }
  }
  write_svg(path,
            data_blocks(lines) + kAxes +
                "unset format\nset xrange [-1:128]\nset xtics 8\nset yrange [0:*]\n"
                "set xlabel 'code without its sign'\n"
                "set ylabel 'share of the codes of the Linear1 output, %'\n" +
                plot_lines(lines, "steps"),
            820, 460);
}

/// Which elements of y differ between the first two variants, and in which bit.
void draw_bits(const std::string& path, const NumericsRuns& runs) {
  if (runs.variants.size() < 2)
    throw InputError("--picture: 'bits' needs a variant besides the contract");
  const std::vector<uint16_t>& left = runs.seeds[0][0].y;
  const std::vector<uint16_t>& right = runs.seeds[0][1].y;
  const uint64_t hidden = runs.c.launches.back().shape.hidden;
  const uint64_t tokens = left.size() / hidden;
  const uint64_t rows = std::min<uint64_t>(tokens, 64);
  const uint64_t columns = 64;
  std::vector<uint64_t> cells(rows * columns, 0);
  std::vector<uint64_t> sizes(rows * columns, 0);
  std::vector<uint64_t> bits(16, 0);
  for (uint64_t at = 0; at < left.size(); ++at) {
    const uint64_t cell = at / hidden * rows / tokens * columns + at % hidden * columns / hidden;
    const auto differing = static_cast<uint32_t>(left[at] ^ right[at]);
    ++sizes[cell];
    cells[cell] += differing != 0 ? 1 : 0;
    for (uint32_t bit = 0; bit < bits.size(); ++bit) bits[bit] += differing >> bit & 1;
  }
  std::string script = "$cells << EOD\n";
  for (uint64_t cell = 0; cell < cells.size(); ++cell) {
    const double share = 100 * static_cast<double>(cells[cell]) /
                         static_cast<double>(std::max<uint64_t>(sizes[cell], 1));
    script += fmt::format("{:.4g}{}", share, (cell + 1) % columns == 0 ? "\n" : " ");
  }
  script += "EOD\n$bits << EOD\n";
  for (uint32_t bit = 0; bit < bits.size(); ++bit)
    script += fmt::format("{} {:.6g}\n", bit,
                          100 * static_cast<double>(bits[bit]) / static_cast<double>(left.size()));
  const double column_width = static_cast<double>(hidden) / static_cast<double>(columns);
  const double row_height = static_cast<double>(tokens) / static_cast<double>(rows);
  script += fmt::format(
      "EOD\nset multiplot layout 1,2 title {}\nset tics nomirror out\n"
      "set palette defined (0 '#ffffff', 1 '#1f4e79')\nset cbrange [0:*]\nunset key\n"
      "set xlabel 'channel'\nset ylabel 'token'\nset cblabel 'elements that differ, %'\n"
      "set xrange [0:{}]\nset yrange [{}:0]\n"
      "plot $cells matrix using (($1+0.5)*{}):(($2+0.5)*{}):3 with image\n"
      "set border 3\nset xlabel 'bit of the BF16 element (15: sign)'\nset ylabel 'elements in "
      "which it "
      "differs, %'\nset xrange [-0.7:15.7]\nset yrange [0:*]\nset xtics 1\nset boxwidth 0.7\n"
      "plot $bits using 1:2 with boxes fs solid 0.8 lc rgb '#1f4e79'\nunset multiplot\n",
      gnuplot_text(runs.variants[0]->name + " and " + runs.variants[1]->name), hidden, tokens,
      column_width, row_height);
  write_svg(path, script, 900, 420);
}

struct Picture {
  const char* name;
  std::vector<std::string> variants;
};

const std::vector<Picture>& pictures() {
  static const std::vector<Picture> kPictures = {
      {"errors", {}},
      {"k",
       {"reuse-rescale", "reuse-rescale-ratio", "promote-32", "promote-256", "promote-whole",
        "sum-bf16", "sum-fp16", "accumulate-exact"}},
      {"groups", {"group-32", "group-64", "group-128", "group-row"}},
      {"slots",
       {"combine-pairwise", "combine-by-rank", "combine-bf16", "combine-fp8", "weight-at-combine"}},
      {"codes", {"l1-scale-fp32", "l1-scale-nearest", "l1-e5m2"}},
      {"bits", {"reuse-rescale"}},
  };
  return kPictures;
}

}  // namespace

std::string picture_names() {
  std::string names;
  for (const Picture& picture : pictures())
    names += (names.empty() ? "" : ", ") + std::string(picture.name);
  return names;
}

std::vector<std::string> picture_variants(const std::string& kind) {
  for (const Picture& picture : pictures())
    if (kind == picture.name) return picture.variants;
  throw InputError(fmt::format("--picture: '{}' is none of {}", kind, picture_names()));
}

void draw_picture(const std::string& kind, const std::string& path, const NumericsRuns& runs,
                  const NumericsOptions& options) {
  if (runs.rows == 0) throw InputError("--plot: the case routes no token, so nothing can be drawn");
  if (kind == "k") return draw_k(path, runs, options);
  if (kind == "groups") return draw_groups(path, runs, options);
  if (kind == "slots") return draw_slots(path, runs, options);
  if (kind == "codes") return draw_codes(path, runs);
  if (kind == "bits") return draw_bits(path, runs);
  draw_errors(path, runs);
}

}  // namespace moetwin
