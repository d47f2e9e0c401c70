#include "model/numerics/expert_bench.h"

#include <algorithm>

#include "model/numerics/expert.h"
#include "model/numerics/reference.h"
#include "model/numerics/small_floats.h"

namespace moetwin::numerics {
namespace {

WeightRows rows_of(const CodedMatrix& matrix, uint64_t depth) {
  return [&matrix, depth](uint64_t block, double* out) {
    const uint64_t groups = groups_of(depth, matrix.columns);
    for (uint64_t row = 0; row < kScaleBlock; ++row) {
      decode_row(matrix.format, matrix.codes.data() + (block * kScaleBlock + row) * depth,
                 matrix.scales.data() + block * groups, matrix.columns, depth, out + row * depth);
    }
  };
}

WeightRows rows_of(const std::vector<float>& matrix, uint64_t depth) {
  return [&matrix, depth](uint64_t block, double* out) {
    const float* from = matrix.data() + block * kScaleBlock * depth;
    std::copy_n(from, kScaleBlock * depth, out);
  };
}

std::vector<float> decoded(const std::vector<uint8_t>& codes, const std::vector<float>& scales,
                           uint64_t depth) {
  const CodeValues& values = code_values(CodeFormat::E4m3);
  std::vector<float> out(codes.size());
  for (uint64_t i = 0; i < codes.size(); ++i) {
    const uint64_t block = i / depth / kScaleBlock * (depth / kScaleBlock);
    out[i] = values[codes[i]] * scales[block + i % depth / kScaleBlock];
  }
  return out;
}

/// One task's work, in the order of its stages.
class Task {
 public:
  Task(const ExpertBench& bench, uint32_t expert, const std::vector<ExpertRow>& rows, bool first)
      : bench_(bench), shape_(bench.problem.shape), rows_(rows), first_(first) {
    for (const ExpertRow& row : rows) {
      routing_.push_back(row.weight);
      factor_.push_back(double{row.weight});
    }
    quantised_ = bench.problem.weights->expert(expert);
    const bool requantises =
        std::any_of(bench.plan.weights.begin(), bench.plan.weights.end(),
                    [](const WeightRule& rule) { return !(rule == WeightRule{}); });
    if (bench.unquantised) {
      weights_ = make_unquantised_expert(bench.unquantised->weights, shape_, expert);
    } else if (requantises) {
      weights_.w1 = decoded(quantised_->w1_codes, quantised_->w1_scales, shape_.hidden);
      weights_.w2 = decoded(quantised_->w2_codes, quantised_->w2_scales, shape_.intermediate);
    }
  }

  ExpertBenchResult run() {
    const BenchPlan& plan = bench_.plan;
    result_.ffns.resize(plan.ffns.size());
    result_.weights.resize(plan.weights.size());
    result_.out.resize(plan.inputs.size());
    result_.out_requantised.resize(plan.requantised.size());
    if (bench_.unquantised) result_.out_total = total_output();
    for (size_t w = 0; w < plan.weights.size(); ++w) {
      const CodedWeights weights = coded_weights(w);
      if (first_ && bench_.unquantised) compare_weights(weights, result_.weights[w]);
      for (size_t input = 0; input < plan.inputs.size(); ++input)
        if (plan.inputs[input].weights == w) run_input(input, weights);
    }
    return std::move(result_);
  }

 private:
  CodedWeights coded_weights(size_t w) const {
    const WeightRule& rule = bench_.plan.weights[w];
    CodedWeights coded;
    if (rule == WeightRule{}) {
      coded.w1.codes = quantised_->w1_codes;
      coded.w1.scales = quantised_->w1_scales;
      coded.w2.codes = quantised_->w2_codes;
      coded.w2.scales = quantised_->w2_scales;
    } else {
      coded.w1 =
          code_matrix(rule, weights_.w1.data(), 2 * uint64_t{shape_.intermediate}, shape_.hidden);
      coded.w2 = code_matrix(rule, weights_.w2.data(), shape_.hidden, shape_.intermediate);
    }
    return coded;
  }

  void compare_weights(const CodedWeights& coded, WeightErrors& errors) const {
    const auto compare = [](const CodedMatrix& matrix, const std::vector<float>& values,
                            uint64_t depth, ErrorSums& sums) {
      const WeightRows rows = rows_of(matrix, depth);
      std::vector<double> block(kScaleBlock * depth);
      for (uint64_t at = 0; at < values.size(); at += block.size()) {
        rows(at / block.size(), block.data());
        for (uint64_t i = 0; i < block.size(); ++i) sums.add(double{values[at + i]}, block[i]);
      }
    };
    compare(coded.w1, weights_.w1, shape_.hidden, errors.w1);
    compare(coded.w2, weights_.w2, shape_.intermediate, errors.w2);
    errors.counts.add(count_codes(coded.w1, weights_.w1.data(), shape_.hidden));
    errors.counts.add(count_codes(coded.w2, weights_.w2.data(), shape_.intermediate));
  }

  /// The rows' activations under one rule.
  CodedRows gather(size_t x) const {
    const CodedRows& all = bench_.tokens.coded[x];
    const uint64_t hidden = shape_.hidden;
    const uint64_t groups = groups_of(hidden, all.group);
    CodedRows rows{all.format, all.group, {}, {}};
    for (const ExpertRow& row : rows_) {
      const auto codes = all.codes.begin() + static_cast<int64_t>(row.y_row * hidden);
      const auto scales = all.scales.begin() + static_cast<int64_t>(row.y_row * groups);
      rows.codes.insert(rows.codes.end(), codes, codes + static_cast<int64_t>(hidden));
      rows.scales.insert(rows.scales.end(), scales, scales + static_cast<int64_t>(groups));
    }
    return rows;
  }

  std::vector<double> decode(const CodedRows& coded, uint64_t depth) const {
    const uint64_t groups = groups_of(depth, coded.group);
    std::vector<double> values(coded.codes.size());
    for (uint64_t row = 0; row < rows_.size(); ++row) {
      decode_row(coded.format, coded.codes.data() + row * depth, coded.scales.data() + row * groups,
                 coded.group, depth, values.data() + row * depth);
    }
    return values;
  }

  std::vector<double> weighted(std::vector<double> out) const {
    for (uint64_t i = 0; i < out.size(); ++i) out[i] *= factor_[i / shape_.hidden];
    return out;
  }

  std::vector<double> total_output() const {
    const uint64_t hidden = shape_.hidden;
    std::vector<double> x;
    for (const ExpertRow& row : rows_) {
      const float* from = bench_.tokens.unquantised.data() + row.y_row * hidden;
      x.insert(x.end(), from, from + hidden);
    }
    return weighted(reference_stages(shape_, double{bench_.problem.clamp}, x, rows_.size(),
                                     rows_of(weights_.w1, hidden),
                                     rows_of(weights_.w2, shape_.intermediate))
                        .out);
  }

  void run_input(size_t input, const CodedWeights& weights) {
    const BenchPlan& plan = bench_.plan;
    const CodedRows x = gather(plan.inputs[input].x);
    const WeightRows w2 = rows_of(weights.w2, shape_.intermediate);
    const ReferenceStages reference =
        reference_stages(shape_, double{bench_.problem.clamp}, decode(x, shape_.hidden),
                         rows_.size(), rows_of(weights.w1, shape_.hidden), w2);
    for (size_t i = 0; i < plan.requantised.size(); ++i) {
      const RequantisedReference& rule = plan.requantised[i];
      if (rule.input != input) continue;
      const std::vector<double> one(rows_.size(), 1.0);
      std::vector<double> out =
          multiply_in_double(requantise_reference(rule.l1, reference.activated, shape_.intermediate,
                                                  rule.weighted ? factor_ : one),
                             rows_.size(), shape_.intermediate, w2, shape_.hidden_blocks());
      result_.out_requantised[i] = rule.weighted ? std::move(out) : weighted(std::move(out));
    }
    for (size_t ffn = 0; ffn < plan.ffns.size(); ++ffn) {
      if (plan.input_of_ffn[ffn] != input) continue;
      const ExpertStages stages =
          expert_stages(plan.ffns[ffn], shape_, bench_.problem.clamp, x, weights, routing_);
      compare_stages(plan.ffns[ffn], reference, stages, result_.ffns[ffn]);
      for (uint64_t row = 0; row < rows_.size(); ++row) {
        std::copy_n(stages.l2.data() + row * shape_.hidden, shape_.hidden,
                    bench_.l2[ffn].data() + rows_[row].row * shape_.hidden);
      }
    }
    result_.out[input] = weighted(reference.out);
  }

  void compare_stages(const FfnRules& rules, const ReferenceStages& reference,
                      const ExpertStages& stages, FfnErrors& errors) const {
    const uint64_t hidden = shape_.hidden;
    const uint64_t intermediate = shape_.intermediate;
    const bool before = rules.weight_place == WeightPlace::BeforeQuantisation;
    const bool at_combine = rules.weight_place == WeightPlace::AtCombine;
    const std::vector<double> l1 = decode(stages.l1, intermediate);
    for (uint64_t i = 0; i < stages.linear1.size(); ++i)
      errors.linear1.add(reference.linear1[i], double{stages.linear1[i]});
    for (uint64_t i = 0; i < stages.activated.size(); ++i) {
      const double expected = reference.activated[i] * (before ? factor_[i / intermediate] : 1);
      errors.activated.add(expected, double{stages.activated[i]});
      errors.l1.add(expected, l1[i]);
    }
    for (uint64_t i = 0; i < stages.l2.size(); ++i) {
      const double expected = reference.out[i] * (at_combine ? 1 : factor_[i / hidden]);
      errors.l2.add(expected, double{decode_bf16(stages.l2[i])});
    }
    errors.l1_counts.add(count_codes(stages.l1, stages.activated.data(), intermediate));
    for (const uint8_t code : stages.l1.codes) ++errors.l1_codes[code];
  }

  const ExpertBench& bench_;
  const Shape& shape_;
  const std::vector<ExpertRow>& rows_;
  const bool first_;
  std::vector<float> routing_;
  std::vector<double> factor_;
  std::shared_ptr<const ExpertWeights> quantised_;
  UnquantisedExpert weights_;  ///< before quantisation, or what stands for it
  ExpertBenchResult result_;
};

}  // namespace

ExpertBenchResult ExpertBench::run(uint32_t expert, const std::vector<ExpertRow>& rows,
                                   bool first) const {
  return Task(*this, expert, rows, first).run();
}

}  // namespace moetwin::numerics
