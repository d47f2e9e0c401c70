#include "model/numerics/bench.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/data.h"
#include "model/expert_tasks.h"
#include "model/numerics/bench_plan.h"
#include "model/numerics/combine.h"
#include "model/numerics/expert_bench.h"
#include "model/numerics/small_floats.h"

namespace moetwin::numerics {
namespace {

/// Rows of one task: large enough that quantising weights anew for each is little beside them.
constexpr uint64_t kRowsPerTask = 256;

using Rows = std::vector<std::vector<ExpertRow>>;

std::vector<ExpertTask> tasks_of(const Rows& rows) {
  std::vector<uint64_t> counts;
  for (const std::vector<ExpertRow>& list : rows) counts.push_back(list.size());
  return expert_tasks(counts, kRowsPerTask);
}

class Bench {
 public:
  Bench(const Problem& problem, const std::optional<UnquantisedSpecs>& unquantised,
        const std::vector<const Variant*>& variants, const BenchOptions& options)
      : problem_(problem),
        shape_(problem.shape),
        unquantised_(unquantised),
        options_(options),
        plan_(variants),
        rows_(rows_by_expert(problem)) {
    results_.resize(variants.size());
    for (size_t i = 0; i < variants.size(); ++i) results_[i].variant = variants[i];
  }

  std::vector<VariantResult> run() {
    count_rows();
    code_tokens();
    run_experts();
    run_tasks(options_.threads, results_.size(), [this](uint64_t i) {
      combine(i);
      collect(i);
    });
    return std::move(results_);
  }

 private:
  void count_rows();
  void code_tokens();
  void run_experts();
  void merge(const ExpertTask& task, const ExpertBenchResult& result);
  void add_output(const ExpertTask& task, const std::vector<double>& out, std::vector<double>& y);
  void combine(size_t variant);
  void collect(size_t variant);

  const Problem& problem_;
  const Shape& shape_;
  const std::optional<UnquantisedSpecs>& unquantised_;
  const BenchOptions& options_;
  const BenchPlan plan_;
  const Rows rows_;
  uint64_t num_tokens_ = 0;
  uint64_t num_rows_ = 0;

  BenchTokens tokens_;
  std::vector<ErrorSums> x_errors_;                ///< [plan.x]
  std::vector<CodeCounts> x_counts_;               ///< [plan.x]
  std::vector<std::vector<uint16_t>> l2_;          ///< [plan.ffns][routed rows, H]
  std::vector<FfnErrors> ffn_errors_;              ///< [plan.ffns]
  std::vector<WeightErrors> weight_errors_;        ///< [plan.weights]
  std::vector<std::vector<ErrorSums>> expert_l2_;  ///< [plan.ffns][E]
  std::vector<std::vector<double>> y_;             ///< [plan.inputs][tokens, H]
  std::vector<std::vector<double>> y_requantised_;
  std::vector<double> y_total_;
  std::vector<VariantResult> results_;
};

void Bench::count_rows() {
  for (const RankInput& input : problem_.ranks) num_tokens_ += input.num_tokens;
  for (const std::vector<ExpertRow>& list : rows_) num_rows_ += list.size();
}

/// Activations of all tokens under every rule, the contract's as the problem has them.
void Bench::code_tokens() {
  CodedRows given;
  for (const RankInput& input : problem_.ranks) {
    given.codes.insert(given.codes.end(), input.x_codes.begin(), input.x_codes.end());
    given.scales.insert(given.scales.end(), input.x_scales.begin(), input.x_scales.end());
  }
  const uint64_t hidden = shape_.hidden;
  if (unquantised_) {
    std::vector<uint32_t> counts;
    for (const RankInput& input : problem_.ranks) counts.push_back(input.num_tokens);
    std::vector<std::vector<float>> x;
    make_unquantised_activations(unquantised_->x, shape_, counts, x);
    for (const std::vector<float>& of_rank : x)
      tokens_.unquantised.insert(tokens_.unquantised.end(), of_rank.begin(), of_rank.end());
  } else {
    tokens_.unquantised.resize(given.codes.size());
    for (uint64_t i = 0; i < given.codes.size(); ++i)
      tokens_.unquantised[i] = decode_e4m3(given.codes[i]) * given.scales[i / kScaleBlock];
  }
  const float* x = tokens_.unquantised.data();
  std::vector<double> row(hidden);
  for (const RowRule& rule : plan_.x) {
    tokens_.coded.push_back(rule == RowRule{} ? given : code_rows(rule, x, num_tokens_, hidden));
    const CodedRows& coded = tokens_.coded.back();
    x_counts_.push_back(count_codes(coded, x, hidden));
    ErrorSums errors;
    const uint64_t groups = groups_of(hidden, rule.group);
    for (uint64_t token = 0; token < num_tokens_ && unquantised_; ++token) {
      decode_row(rule.format, coded.codes.data() + token * hidden,
                 coded.scales.data() + token * groups, rule.group, hidden, row.data());
      for (uint64_t i = 0; i < hidden; ++i) errors.add(double{x[token * hidden + i]}, row[i]);
    }
    x_errors_.push_back(errors);
  }
}

void Bench::run_experts() {
  const uint64_t y_size = num_tokens_ * shape_.hidden;
  l2_.assign(plan_.ffns.size(), std::vector<uint16_t>(num_rows_ * shape_.hidden));
  expert_l2_.assign(plan_.ffns.size(), std::vector<ErrorSums>(shape_.experts));
  ffn_errors_.resize(plan_.ffns.size());
  weight_errors_.resize(plan_.weights.size());
  y_.assign(plan_.inputs.size(), std::vector<double>(y_size, 0.0));
  y_requantised_.assign(plan_.requantised.size(), std::vector<double>(y_size, 0.0));
  if (unquantised_) y_total_.assign(y_size, 0.0);

  const ExpertBench bench = {problem_, plan_, tokens_, unquantised_, l2_};
  const std::vector<ExpertTask> tasks = tasks_of(rows_);
  std::vector<ExpertBenchResult> done(tasks.size());
  run_tasks(
      options_.threads, tasks.size(),
      [&](uint64_t i) {
        const ExpertTask& task = tasks[i];
        const std::vector<ExpertRow>& list = rows_[task.expert];
        const std::vector<ExpertRow> rows(list.begin() + static_cast<int64_t>(task.begin),
                                          list.begin() + static_cast<int64_t>(task.end));
        done[i] = bench.run(task.expert, rows, task.begin == 0);
      },
      [&](uint64_t i) {
        merge(tasks[i], done[i]);
        done[i] = ExpertBenchResult();
        if (options_.advanced) options_.advanced();
      });
}

/// In the order of the tasks, so that no sum depends on threads.
void Bench::merge(const ExpertTask& task, const ExpertBenchResult& result) {
  for (size_t i = 0; i < plan_.ffns.size(); ++i) {
    FfnErrors& all = ffn_errors_[i];
    const FfnErrors& part = result.ffns[i];
    all.linear1.add(part.linear1);
    all.activated.add(part.activated);
    all.l1.add(part.l1);
    all.l2.add(part.l2);
    expert_l2_[i][task.expert].add(part.l2);
    all.l1_counts.add(part.l1_counts);
    for (size_t code = 0; code < all.l1_codes.size(); ++code)
      all.l1_codes[code] += part.l1_codes[code];
  }
  for (size_t i = 0; i < plan_.weights.size(); ++i) {
    weight_errors_[i].w1.add(result.weights[i].w1);
    weight_errors_[i].w2.add(result.weights[i].w2);
    weight_errors_[i].counts.add(result.weights[i].counts);
  }
  for (size_t i = 0; i < y_.size(); ++i) add_output(task, result.out[i], y_[i]);
  for (size_t i = 0; i < y_requantised_.size(); ++i)
    add_output(task, result.out_requantised[i], y_requantised_[i]);
  if (unquantised_) add_output(task, result.out_total, y_total_);
}

void Bench::add_output(const ExpertTask& task, const std::vector<double>& out,
                       std::vector<double>& y) {
  const uint64_t hidden = shape_.hidden;
  for (uint64_t row = task.begin; row < task.end; ++row) {
    double* to = y.data() + rows_[task.expert][row].y_row * hidden;
    const double* from = out.data() + (row - task.begin) * hidden;
    for (uint64_t i = 0; i < hidden; ++i) to[i] += from[i];
  }
}

void Bench::combine(size_t variant) {
  VariantResult& result = results_[variant];
  const std::vector<uint16_t>& l2 = l2_[plan_.ffn_of_variant[variant]];
  const bool weight = result.variant->ffn.weight_place == WeightPlace::AtCombine;
  result.y.resize(num_tokens_ * shape_.hidden);
  ErrorSums& errors = result.stages[static_cast<size_t>(BenchStage::Combine)];
  std::vector<CombineSlot> slots;
  uint64_t token = 0;
  uint64_t row = 0;
  for (const RankInput& input : problem_.ranks) {
    for (uint64_t t = 0; t < input.num_tokens; ++t, ++token) {
      slots.clear();
      for (uint64_t at = t * shape_.topk; at < (t + 1) * shape_.topk; ++at) {
        if (input.topk_idx[at] == kMaskedExpert) continue;
        const auto expert = static_cast<uint32_t>(input.topk_idx[at]);
        slots.push_back({expert, shape_.rank_of_expert(expert),
                         weight ? input.topk_weights[at] : 1.0f,
                         l2.data() + row++ * shape_.hidden});
      }
      combine_token(result.variant->combine, slots, shape_.hidden,
                    result.y.data() + token * shape_.hidden);
      for (uint64_t i = 0; i < shape_.hidden; ++i) {
        double exact = 0;
        for (const CombineSlot& slot : slots)
          exact += double{slot.weight} * double{decode_bf16(slot.row[i])};
        errors.add(exact, double{decode_bf16(result.y[token * shape_.hidden + i])});
      }
    }
  }
}

/// Errors of y, and what the variant's inputs and network found.
void Bench::collect(size_t variant) {
  VariantResult& result = results_[variant];
  const size_t ffn = plan_.ffn_of_variant[variant];
  const size_t input = plan_.input_of_ffn[ffn];
  const auto stage = [&](BenchStage s) -> ErrorSums& {
    return result.stages[static_cast<size_t>(s)];
  };
  const InputRules& rules = plan_.inputs[input];
  stage(BenchStage::X) = x_errors_[rules.x];
  stage(BenchStage::W1) = weight_errors_[rules.weights].w1;
  stage(BenchStage::W2) = weight_errors_[rules.weights].w2;
  stage(BenchStage::Linear1) = ffn_errors_[ffn].linear1;
  stage(BenchStage::Activated) = ffn_errors_[ffn].activated;
  stage(BenchStage::L1) = ffn_errors_[ffn].l1;
  stage(BenchStage::L2) = ffn_errors_[ffn].l2;
  result.x = x_counts_[rules.x];
  result.weights = weight_errors_[rules.weights].counts;
  result.l1 = ffn_errors_[ffn].l1_counts;
  result.l1_codes = ffn_errors_[ffn].l1_codes;

  const std::vector<double>& expected = y_[input];
  const std::vector<double>& requantised = y_requantised_[plan_.requantised_of_ffn[ffn]];
  if (unquantised_) result.total = ErrorSums();
  for (uint64_t token = 0; token < num_tokens_; ++token) {
    ErrorSums of_token;
    for (uint64_t at = token * shape_.hidden; at < (token + 1) * shape_.hidden; ++at) {
      const double got = decode_bf16(result.y[at]);
      of_token.add(expected[at], got, at);
      result.requantised.add(requantised[at], got, at);
      if (unquantised_) result.total->add(y_total_[at], got, at);
    }
    stage(BenchStage::Y).add(of_token);
    result.token_rms.push_back(of_token.relative_rms());
  }
  for (uint32_t expert = 0; expert < shape_.experts; ++expert) {
    if (rows_[expert].empty()) continue;
    result.experts.push_back(
        {expert, rows_[expert].size(), expert_l2_[ffn][expert].relative_rms()});
  }
}

}  // namespace

const char* bench_stage_name(BenchStage stage) {
  constexpr const char* kNames[kBenchStages] = {"x",  "w1", "w2",      "linear1", "activated",
                                                "l1", "l2", "combine", "y"};
  return kNames[static_cast<size_t>(stage)];
}

std::vector<VariantResult> run_bench(const Problem& problem,
                                     const std::optional<UnquantisedSpecs>& unquantised,
                                     const std::vector<const Variant*>& variants,
                                     const BenchOptions& options) {
  MOETWIN_CHECK(problem.ranks.size() == problem.shape.ranks && problem.weights != nullptr);
  return Bench(problem, unquantised, variants, options).run();
}

uint64_t bench_tasks(const Problem& problem) { return tasks_of(rows_by_expert(problem)).size(); }

uint64_t bench_bytes(const Shape& shape, uint64_t tokens, uint64_t rows,
                     const std::vector<const Variant*>& variants) {
  const BenchPlan plan(variants);
  const uint64_t hidden = shape.hidden;
  const uint64_t references = plan.inputs.size() + plan.requantised.size() + 1;
  const uint64_t task_rows = std::min(rows, kRowsPerTask);
  const uint64_t of_task = task_rows * (8 * hidden * (references + 2) + 40 * shape.intermediate) +
                           18 * hidden * shape.intermediate;
  constexpr uint64_t kTasksAtOnce = 2;
  return tokens * hidden * (8 * references + 2 * variants.size() + 5 * plan.x.size() + 8) +
         rows * hidden * 2 * plan.ffns.size() + kTasksAtOnce * of_task;
}

}  // namespace moetwin::numerics
