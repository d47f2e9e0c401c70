// Eigen multiplies single-threaded: threads work on different rows, so its blocking, and with it
// every bit, stays the same at any number of them.
#define EIGEN_DONT_PARALLELIZE
#include "model/float64_reference.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/data.h"
#include "model/error_sums.h"
#include "model/expert_tasks.h"

namespace moetwin {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows of one task; dequantised weights are spread over this many rows.
constexpr uint64_t kRowsPerTask = 256;

/// The layer's operands from codes and scales.
class QuantisedOperands {
 public:
  using Expert = std::shared_ptr<const ExpertWeights>;

  explicit QuantisedOperands(const Problem& problem) : problem_(problem) {}

  Expert make(uint32_t expert) const { return problem_.weights->expert(expert); }

  /// One token's [H] channels.
  void token(uint32_t rank, uint64_t token, double* out) const {
    const RankInput& input = problem_.ranks[rank];
    const uint64_t hidden = problem_.shape.hidden;
    dequantise(input.x_codes.data() + token * hidden,
               input.x_scales.data() + token * (hidden / kScaleBlock), hidden, out);
  }

  /// 128 rows of W1 [128, H] or W2 [128, I], from row 128 * block on.
  void w1_rows(const ExpertWeights& expert, uint64_t block, Matrix& out) const {
    weight_rows(expert.w1_codes, expert.w1_scales, block, out);
  }
  void w2_rows(const ExpertWeights& expert, uint64_t block, Matrix& out) const {
    weight_rows(expert.w2_codes, expert.w2_scales, block, out);
  }

 private:
  static void dequantise(const uint8_t* codes, const float* scales, uint64_t count, double* out) {
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = double{decode_e4m3(codes[i])} * double{scales[i / kScaleBlock]};
    }
  }

  static void weight_rows(const std::vector<uint8_t>& codes, const std::vector<float>& scales,
                          uint64_t block, Matrix& out) {
    const auto columns = static_cast<uint64_t>(out.cols());
    const float* block_scales = scales.data() + block * (columns / kScaleBlock);
    for (uint64_t row = 0; row < kScaleBlock; ++row) {
      const uint64_t at = (block * kScaleBlock + row) * columns;
      dequantise(codes.data() + at, block_scales, columns, out.data() + row * columns);
    }
  }

  const Problem& problem_;
};

/// The layer's operands as they were before quantisation.
class UnquantisedOperands {
 public:
  using Expert = std::shared_ptr<const UnquantisedExpert>;

  UnquantisedOperands(const Problem& problem, const DataSpec& x_data, const DataSpec& weight_data)
      : shape_(problem.shape), weight_data_(weight_data) {
    std::vector<uint32_t> tokens;
    for (const RankInput& input : problem.ranks) tokens.push_back(input.num_tokens);
    make_unquantised_activations(x_data, shape_, tokens, x_);
  }

  Expert make(uint32_t expert) const {
    return std::make_shared<const UnquantisedExpert>(
        make_unquantised_expert(weight_data_, shape_, expert));
  }

  void token(uint32_t rank, uint64_t token, double* out) const {
    const float* x = x_[rank].data() + token * shape_.hidden;
    std::copy_n(x, shape_.hidden, out);
  }

  void w1_rows(const UnquantisedExpert& expert, uint64_t block, Matrix& out) const {
    std::copy_n(expert.w1.data() + block * static_cast<uint64_t>(out.size()), out.size(),
                out.data());
  }
  void w2_rows(const UnquantisedExpert& expert, uint64_t block, Matrix& out) const {
    std::copy_n(expert.w2.data() + block * static_cast<uint64_t>(out.size()), out.size(),
                out.data());
  }

 private:
  const Shape shape_;
  const DataSpec weight_data_;
  std::vector<std::vector<float>> x_;  ///< [R][tokens, H]
};

/// S3 to S5 in double.
double activate(double gate, double up, double limit, double weight) {
  if (limit < std::numeric_limits<double>::infinity()) {
    gate = gate < limit ? gate : limit;
    up = up < -limit ? -limit : up;
    up = up < limit ? up : limit;
  }
  return gate / (1.0 + std::exp(-gate)) * up * weight;
}

/// One task: the weighted expert outputs [rows, H] of `rows`.
template <typename Operands>
Matrix expert_outputs(const Shape& shape, double limit, const Operands& operands,
                      const typename Operands::Expert::element_type& expert, const ExpertRow* rows,
                      uint64_t count) {
  const uint64_t hidden = shape.hidden;
  const uint64_t intermediate = shape.intermediate;
  Matrix x(count, hidden);
  for (uint64_t i = 0; i < count; ++i) {
    operands.token(rows[i].rank, rows[i].token, x.data() + i * hidden);
  }
  Matrix activated(count, intermediate);
  Matrix weights(kScaleBlock, hidden);
  Matrix gate(count, kScaleBlock);
  Matrix up(count, kScaleBlock);
  for (uint64_t block = 0; block < shape.intermediate_blocks(); ++block) {
    operands.w1_rows(expert, block, weights);
    gate.noalias() = x * weights.transpose();
    operands.w1_rows(expert, shape.intermediate_blocks() + block, weights);
    up.noalias() = x * weights.transpose();
    for (uint64_t i = 0; i < count; ++i) {
      for (uint64_t j = 0; j < kScaleBlock; ++j) {
        activated(i, block * kScaleBlock + j) =
            activate(gate(i, j), up(i, j), limit, double{rows[i].weight});
      }
    }
  }
  weights.resize(kScaleBlock, intermediate);
  Matrix out(count, hidden);
  for (uint64_t block = 0; block < shape.hidden_blocks(); ++block) {
    operands.w2_rows(expert, block, weights);
    out.middleCols(block * kScaleBlock, kScaleBlock).noalias() = activated * weights.transpose();
  }
  return out;
}

template <typename Operands>
Float64Result run_layer(const Problem& problem, const Operands& operands,
                        const Float64Options& options) {
  const uint64_t hidden = problem.shape.hidden;
  Float64Result result;
  result.shape = problem.shape;
  uint64_t total = 0;
  for (const RankInput& input : problem.ranks) {
    result.tokens.push_back(input.num_tokens);
    total += input.num_tokens;
  }
  result.y.assign(total * hidden, 0.0);

  const std::vector<std::vector<ExpertRow>> rows = rows_by_expert(problem);
  std::vector<uint64_t> counts;
  for (const std::vector<ExpertRow>& list : rows) counts.push_back(list.size());
  const std::vector<ExpertTask> tasks = expert_tasks(counts, kRowsPerTask);
  HeldPerExpert<typename Operands::Expert::element_type> held(
      [&](uint32_t expert) { return operands.make(expert); }, tasks, problem.shape.experts);

  // Sums into y are made in task order, whichever thread is first.
  std::vector<Matrix> outputs(tasks.size());
  run_tasks(
      options.threads, tasks.size(),
      [&](uint64_t i) {
        const ExpertTask& task = tasks[i];
        const typename Operands::Expert expert = held.take(task.expert);
        outputs[i] = expert_outputs(problem.shape, double{problem.clamp}, operands, *expert,
                                    rows[task.expert].data() + task.begin, task.end - task.begin);
        held.done(task.expert);
      },
      [&](uint64_t i) {
        const ExpertTask& task = tasks[i];
        for (uint64_t row = task.begin; row < task.end; ++row) {
          double* y = result.y.data() + rows[task.expert][row].y_row * hidden;
          const double* out = outputs[i].data() + (row - task.begin) * hidden;
          for (uint64_t column = 0; column < hidden; ++column) y[column] += out[column];
        }
        outputs[i].resize(0, 0);
      });
  return result;
}

}  // namespace

Float64Result run_float64(const Problem& problem, const Float64Options& options) {
  return run_layer(problem, QuantisedOperands(problem), options);
}

Float64Result run_float64_unquantised(const Problem& problem, const DataSpec& x_data,
                                      const DataSpec& weight_data, const Float64Options& options) {
  MOETWIN_CHECK(has_unquantised(x_data) && has_unquantised(weight_data));
  return run_layer(problem, UnquantisedOperands(problem, x_data, weight_data), options);
}

ErrorMetrics error_against(const Float64Result& reference, const LayerResult& result) {
  MOETWIN_CHECK(reference.shape == result.shape);
  MOETWIN_CHECK(reference.tokens == result.tokens);
  MOETWIN_CHECK(reference.y.size() == result.y.size());
  const uint64_t hidden = reference.shape.hidden;
  ErrorSums sums;
  for (uint64_t at = 0; at < result.y.size(); ++at)
    sums.add(reference.y[at], double{decode_bf16(result.y[at])}, at);

  ErrorMetrics metrics;
  metrics.relative_rms = sums.relative_rms();
  metrics.max_abs = sums.max_abs();
  metrics.cosine = sums.cosine();
  metrics.calc_diff = sums.calc_diff();
  metrics.non_finite_result = sums.non_finite_result();
  metrics.non_finite_reference = sums.non_finite_reference();
  if (sums.max_abs() > 0) {
    uint64_t token = sums.worst_place() / hidden;
    while (token >= reference.tokens[metrics.worst_rank])
      token -= reference.tokens[metrics.worst_rank++];
    metrics.worst_token = static_cast<uint32_t>(token);
    metrics.worst_column = static_cast<uint32_t>(sums.worst_place() % hidden);
  }
  return metrics;
}

}  // namespace moetwin
