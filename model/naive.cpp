#include "model/naive.h"

#include <algorithm>
#include <memory>
#include <string>

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/expert_ffn.h"
#include "model/expert_tasks.h"

namespace moetwin {
namespace {

/// Rows of one expert that one task computes.
constexpr uint64_t kRowsPerTask = 64;

/// What one rank sends to another: routed slots in order of (local expert, token, k).
struct Parcel {
  std::vector<uint32_t> slots;  ///< token * K + k on the sending rank
  std::vector<float> weights;
  std::vector<uint8_t> codes;    ///< [slots, H]
  std::vector<float> scales;     ///< [slots, H/128]
  std::vector<uint16_t> answer;  ///< [slots, H], filled by the receiving rank
};

/// boxes[i][j]: what rank i has for rank j.
template <typename T>
using Boxes = std::vector<std::vector<T>>;

template <typename T>
Boxes<T> empty_boxes(uint32_t ranks) {
  Boxes<T> boxes(ranks);
  for (std::vector<T>& row : boxes) row.resize(ranks);
  return boxes;
}

/// The explicit all-to-all: afterwards received[i][j] is what rank i got from rank j.
template <typename T>
Boxes<T> all_to_all(Boxes<T> sent) {
  const auto ranks = static_cast<uint32_t>(sent.size());
  Boxes<T> received = empty_boxes<T>(ranks);
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) received[to][from] = std::move(sent[from][to]);
  }
  return received;
}

/// Where a row of an expert lies: which parcel of the expert's rank, and which slot of it.
struct ReceivedRow {
  uint32_t source;
  uint64_t place;
};

class NaiveLayer {
 public:
  NaiveLayer(const Problem& problem, uint32_t threads)
      : problem_(problem), shape_(problem.shape), threads_(threads) {}

  LayerResult run() {
    check_input();
    name_rows();
    const Boxes<std::vector<uint32_t>> sent_counts = count();
    const Boxes<std::vector<uint32_t>> counts = exchange_counts(sent_counts);
    Boxes<Parcel> parcels = exchange_tokens(pack(sent_counts));
    list_expert_rows(counts);
    run_experts(parcels);
    record_slots(counts, parcels);
    exchange_results(std::move(parcels));
    weighted_sum();
    return std::move(result_);
  }

 private:
  void check_input() const;
  void name_rows();
  Boxes<std::vector<uint32_t>> count() const;
  Boxes<std::vector<uint32_t>> exchange_counts(const Boxes<std::vector<uint32_t>>& sent);
  Boxes<Parcel> pack(const Boxes<std::vector<uint32_t>>& counts) const;
  Boxes<Parcel> exchange_tokens(Boxes<Parcel> sent);
  void list_expert_rows(const Boxes<std::vector<uint32_t>>& counts);
  void run_experts(Boxes<Parcel>& parcels);
  void compute_rows(const ExpertTask& task, const ExpertWeights& weights,
                    std::vector<Parcel>& parcels);
  void record_slots(const Boxes<std::vector<uint32_t>>& counts, const Boxes<Parcel>& parcels);
  void exchange_results(Boxes<Parcel> parcels);
  void weighted_sum();

  const Problem& problem_;
  const Shape& shape_;
  const uint32_t threads_;
  std::vector<std::vector<uint64_t>> row_of_slot_;     ///< [R][token*K+k]: among the routed rows
  std::vector<std::vector<ReceivedRow>> expert_rows_;  ///< [E]
  LayerResult result_;
};

void NaiveLayer::check_input() const {
  MOETWIN_CHECK(problem_.ranks.size() == shape_.ranks);
  MOETWIN_CHECK(problem_.weights != nullptr);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const RankInput& input = problem_.ranks[rank];
    const uint64_t tokens = input.num_tokens;
    MOETWIN_CHECK(tokens <= shape_.max_tokens_per_rank);
    MOETWIN_CHECK(input.x_codes.size() == tokens * shape_.hidden);
    MOETWIN_CHECK(input.x_scales.size() == tokens * shape_.hidden_blocks());
    MOETWIN_CHECK(input.topk_idx.size() == tokens * shape_.topk);
    MOETWIN_CHECK(input.topk_weights.size() == tokens * shape_.topk);
    for (const int32_t expert : input.topk_idx) {
      if (expert < kMaskedExpert || expert >= static_cast<int32_t>(shape_.experts)) {
        throw InputError("routing: topk_idx on rank " + std::to_string(rank) + " is " +
                         std::to_string(expert) + ", must be -1 to " +
                         std::to_string(shape_.experts - 1));
      }
    }
  }
}

/// Numbers the routed slots, ascending in (rank, token, k), and sets up the result.
void NaiveLayer::name_rows() {
  result_.shape = shape_;
  row_of_slot_.resize(shape_.ranks);
  uint64_t tokens = 0;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const RankInput& input = problem_.ranks[rank];
    result_.tokens.push_back(input.num_tokens);
    tokens += input.num_tokens;
    row_of_slot_[rank].resize(input.topk_idx.size());
    for (uint64_t slot = 0; slot < input.topk_idx.size(); ++slot) {
      if (input.topk_idx[slot] == kMaskedExpert) continue;
      row_of_slot_[rank][slot] = result_.rows.size();
      result_.rows.push_back({rank, static_cast<uint32_t>(slot / shape_.topk),
                              static_cast<uint32_t>(slot % shape_.topk),
                              static_cast<uint32_t>(input.topk_idx[slot]),
                              input.topk_weights[slot]});
    }
  }
  const uint64_t rows = result_.rows.size();
  result_.l1_codes.resize(rows * shape_.intermediate);
  result_.l1_scales.resize(rows * shape_.linear1_scale_groups());
  result_.l2.resize(rows * shape_.hidden);
  result_.y.resize(tokens * shape_.hidden);
}

/// Count: how many slots each rank has for each local expert of each other rank.
Boxes<std::vector<uint32_t>> NaiveLayer::count() const {
  Boxes<std::vector<uint32_t>> counts = empty_boxes<std::vector<uint32_t>>(shape_.ranks);
  for (uint32_t from = 0; from < shape_.ranks; ++from) {
    for (std::vector<uint32_t>& box : counts[from]) box.assign(shape_.num_local_experts(), 0);
    for (const int32_t id : problem_.ranks[from].topk_idx) {
      if (id == kMaskedExpert) continue;
      const auto expert = static_cast<uint32_t>(id);
      ++counts[from][shape_.rank_of_expert(expert)][shape_.local_expert(expert)];
    }
  }
  return counts;
}

/// Exchange of counts: afterwards every rank knows what it will receive.
Boxes<std::vector<uint32_t>> NaiveLayer::exchange_counts(const Boxes<std::vector<uint32_t>>& sent) {
  const uint64_t table = uint64_t{shape_.num_local_experts()} * sizeof(uint32_t);
  const uint64_t ranks = shape_.ranks;
  result_.traffic.index_bytes += ranks * (ranks - 1) * table;
  result_.traffic.buffer_bytes += 2 * ranks * ranks * table;
  ++result_.traffic.barriers;
  return all_to_all(sent);
}

/// Allocates exactly what was counted; then each rank copies its tokens in, one copy a routed
/// slot.
Boxes<Parcel> NaiveLayer::pack(const Boxes<std::vector<uint32_t>>& counts) const {
  Boxes<Parcel> parcels = empty_boxes<Parcel>(shape_.ranks);
  const uint64_t hidden = shape_.hidden;
  const uint64_t blocks = shape_.hidden_blocks();
  for (uint32_t from = 0; from < shape_.ranks; ++from) {
    const RankInput& input = problem_.ranks[from];
    std::vector<uint64_t> next(shape_.experts);  // where an expert's next slot goes in its parcel
    for (uint32_t to = 0; to < shape_.ranks; ++to) {
      uint64_t slots = 0;
      for (uint32_t local = 0; local < shape_.num_local_experts(); ++local) {
        next[uint64_t{to} * shape_.num_local_experts() + local] = slots;
        slots += counts[from][to][local];
      }
      Parcel& parcel = parcels[from][to];
      parcel.slots.resize(slots);
      parcel.weights.resize(slots);
      parcel.codes.resize(slots * hidden);
      parcel.scales.resize(slots * blocks);
    }
    for (uint64_t slot = 0; slot < input.topk_idx.size(); ++slot) {
      if (input.topk_idx[slot] == kMaskedExpert) continue;
      const auto expert = static_cast<uint32_t>(input.topk_idx[slot]);
      Parcel& parcel = parcels[from][shape_.rank_of_expert(expert)];
      const uint64_t place = next[expert]++;
      const uint64_t token = slot / shape_.topk;
      parcel.slots[place] = static_cast<uint32_t>(slot);
      parcel.weights[place] = input.topk_weights[slot];
      std::copy_n(input.x_codes.begin() + token * hidden, hidden,
                  parcel.codes.begin() + place * hidden);
      std::copy_n(input.x_scales.begin() + token * blocks, blocks,
                  parcel.scales.begin() + place * blocks);
    }
  }
  return parcels;
}

/// Exchange of tokens.
Boxes<Parcel> NaiveLayer::exchange_tokens(Boxes<Parcel> sent) {
  const uint64_t index_row = sizeof(uint32_t) + sizeof(float);
  const uint64_t token_row = shape_.hidden + shape_.hidden_blocks() * sizeof(float);
  for (uint32_t from = 0; from < shape_.ranks; ++from) {
    for (uint32_t to = 0; to < shape_.ranks; ++to) {
      const uint64_t slots = sent[from][to].slots.size();
      result_.traffic.buffer_bytes += 2 * slots * (index_row + token_row);
      if (from == to) continue;
      result_.traffic.index_bytes += slots * index_row;
      result_.traffic.dispatch_bytes += slots * token_row;
    }
  }
  ++result_.traffic.barriers;
  return all_to_all(std::move(sent));
}

/// Lists each expert's rows, source ranks ascending.
void NaiveLayer::list_expert_rows(const Boxes<std::vector<uint32_t>>& counts) {
  expert_rows_.resize(shape_.experts);
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    for (uint32_t source = 0; source < shape_.ranks; ++source) {
      uint64_t place = 0;
      for (uint32_t local = 0; local < shape_.num_local_experts(); ++local) {
        const uint64_t expert = uint64_t{rank} * shape_.num_local_experts() + local;
        for (uint32_t i = 0; i < counts[rank][source][local]; ++i) {
          expert_rows_[expert].push_back({source, place++});
        }
      }
    }
  }
}

/// Expert FFN: every expert on its rows, on as many threads as there are blocks of rows.
void NaiveLayer::run_experts(Boxes<Parcel>& parcels) {
  for (std::vector<Parcel>& received : parcels) {
    for (Parcel& parcel : received) parcel.answer.resize(parcel.slots.size() * shape_.hidden);
  }
  std::vector<uint64_t> rows;
  for (const std::vector<ReceivedRow>& list : expert_rows_) rows.push_back(list.size());
  const std::vector<ExpertTask> tasks = expert_tasks(rows, kRowsPerTask);
  HeldPerExpert<ExpertWeights> held(
      [this](uint32_t expert) { return problem_.weights->expert(expert); }, tasks, shape_.experts);
  run_tasks(threads_, tasks.size(), [&](uint64_t i) {
    const uint32_t expert = tasks[i].expert;
    const std::shared_ptr<const ExpertWeights> weights = held.take(expert);
    compute_rows(tasks[i], *weights, parcels[shape_.rank_of_expert(expert)]);
    held.done(expert);
  });
}

void NaiveLayer::compute_rows(const ExpertTask& task, const ExpertWeights& weights,
                              std::vector<Parcel>& parcels) {
  const uint64_t hidden = shape_.hidden;
  const uint64_t blocks = shape_.hidden_blocks();
  const uint64_t intermediate = shape_.intermediate;
  const uint64_t groups = shape_.linear1_scale_groups();
  const ReceivedRow* list = expert_rows_[task.expert].data() + task.begin;

  ExpertInput input;
  input.rows = task.end - task.begin;
  for (uint64_t row = 0; row < input.rows; ++row) {
    const Parcel& parcel = parcels[list[row].source];
    const uint64_t place = list[row].place;
    const auto codes = parcel.codes.begin() + place * hidden;
    const auto scales = parcel.scales.begin() + place * blocks;
    input.codes.insert(input.codes.end(), codes, codes + hidden);
    input.scales.insert(input.scales.end(), scales, scales + blocks);
    input.weights.push_back(parcel.weights[place]);
  }

  const ExpertOutput output = expert_ffn(shape_, problem_.clamp, weights, input);
  for (uint64_t row = 0; row < input.rows; ++row) {
    const uint64_t place = list[row].place;
    Parcel& parcel = parcels[list[row].source];
    std::copy_n(output.l2.begin() + row * hidden, hidden, parcel.answer.begin() + place * hidden);
    const uint64_t named = row_of_slot_[list[row].source][parcel.slots[place]];
    std::copy_n(output.l1_codes.begin() + row * intermediate, intermediate,
                result_.l1_codes.begin() + named * intermediate);
    std::copy_n(output.l1_scales.begin() + row * groups, groups,
                result_.l1_scales.begin() + named * groups);
  }
}

/// The slot stage as each rank received it: per local expert and source rank, already ascending.
void NaiveLayer::record_slots(const Boxes<std::vector<uint32_t>>& counts,
                              const Boxes<Parcel>& parcels) {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    std::vector<uint64_t> next(shape_.ranks, 0);
    for (uint32_t local = 0; local < shape_.num_local_experts(); ++local) {
      for (uint32_t source = 0; source < shape_.ranks; ++source) {
        const auto begin = parcels[rank][source].slots.begin() + next[source];
        const uint32_t slots = counts[rank][source][local];
        result_.slots.emplace_back(begin, begin + slots);
        next[source] += slots;
      }
    }
  }
}

/// Exchange of results: the answers travel back and come to lie beside the slot that asked for
/// them.
void NaiveLayer::exchange_results(Boxes<Parcel> parcels) {
  const uint64_t hidden = shape_.hidden;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    for (uint32_t source = 0; source < shape_.ranks; ++source) {
      const uint64_t bytes = parcels[rank][source].answer.size() * sizeof(uint16_t);
      result_.traffic.buffer_bytes += 2 * bytes;
      if (rank != source) result_.traffic.combine_bytes += bytes;
    }
  }
  ++result_.traffic.barriers;
  const Boxes<Parcel> answers = all_to_all(std::move(parcels));
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    for (const Parcel& parcel : answers[rank]) {
      for (uint64_t place = 0; place < parcel.slots.size(); ++place) {
        std::copy_n(parcel.answer.begin() + place * hidden, hidden,
                    result_.l2.begin() + row_of_slot_[rank][parcel.slots[place]] * hidden);
      }
    }
  }
}

/// Weighted sum: every token adds up its answers (their weights are already in, NUMERICS S5), k
/// ascending, and rounds once.
void NaiveLayer::weighted_sum() {
  const uint64_t hidden = shape_.hidden;
  const uint32_t topk = shape_.topk;
  uint64_t y_row = 0;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const RankInput& input = problem_.ranks[rank];
    for (uint64_t token = 0; token < input.num_tokens; ++token, ++y_row) {
      for (uint64_t column = 0; column < hidden; ++column) {
        float sum = 0.0f;
        for (uint64_t slot = token * topk; slot < (token + 1) * topk; ++slot) {
          if (input.topk_idx[slot] == kMaskedExpert) continue;
          sum = combine_step(sum, result_.l2[row_of_slot_[rank][slot] * hidden + column]);
        }
        result_.y[y_row * hidden + column] = combine_result(sum);
      }
    }
  }
}

}  // namespace

LayerResult run_naive(const Problem& problem, const NaiveOptions& options) {
  return NaiveLayer(problem, options.threads).run();
}

}  // namespace moetwin
