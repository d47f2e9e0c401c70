// Works out recorded tiles on OpenMP threads.
#include "cpu_sim/tile_jobs.h"

#include <algorithm>
#include <cstring>

#include "cpu_sim/planted_promotion.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

/// Below this a team of threads costs more than it brings, above all on a busy machine.
constexpr uint64_t kWorkForTeam = uint64_t{64} << 20;

uint64_t work_of(const TileJob& job, const TileJob::Block& block) {
  return uint64_t{job.rows} * kBlockN * kMmaK * block.steps;
}

}  // namespace

TileJob* TileJobs::acquire(uint32_t rows) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<TileJob>());
    free_.push_back(all_.back().get());
  }
  TileJob* job = free_.back();
  free_.pop_back();
  job->rows = rows;
  job->values.assign(size_t{kMathRows} * kBlockN, 0.0f);
  job->codes.clear();
  job->blocks.clear();
  job->done = 0;
  return job;
}

void TileJobs::release(TileJob* job) {
  if (job == nullptr) return;
  if (job->queued) {
    std::erase(pending_, job);
    for (size_t i = job->done; i < job->blocks.size(); ++i)
      if (job->blocks[i].ready) ready_work_ -= work_of(*job, job->blocks[i]);
  }
  job->queued = false;
  free_.push_back(job);
}

uint32_t TileJobs::multiply(TileJob& job, const uint8_t* a, const uint8_t* b, size_t pitch,
                            uint32_t steps) {
  const size_t width = size_t{kMmaK} * steps;
  TileJob::Block& block = job.blocks.emplace_back();
  block.steps = steps;
  block.a_offset = job.codes.size();
  block.b_offset = block.a_offset + job.rows * width;
  job.codes.resize(block.b_offset + kBlockN * width);
  for (uint32_t row = 0; row < job.rows; ++row)
    std::memcpy(&job.codes[block.a_offset + row * width], a + row * pitch, width);
  for (uint32_t row = 0; row < kBlockN; ++row)
    std::memcpy(&job.codes[block.b_offset + row * width], b + row * pitch, width);
  if (!job.queued) pending_.push_back(&job);
  job.queued = true;
  return static_cast<uint32_t>(job.blocks.size() - 1);
}

void TileJobs::make_ready(TileJob& job, uint32_t block) {
  job.blocks[block].ready = true;
  ready_work_ += work_of(job, job.blocks[block]);
}

void TileJobs::finish_rows(TileJob& job, uint32_t first_row, uint32_t rows) const {
  constexpr uint32_t kChunk = 8;
  if (is_promotion_fault(fault_)) return finish_rows_wrongly(job, first_row, rows, fault_);
  std::vector<float> acc(size_t{rows} * kBlockN);
  float columns[kBlockN];
  for (size_t i = job.done; i < job.blocks.size() && job.blocks[i].ready; ++i) {
    const TileJob::Block& block = job.blocks[i];
    const size_t width = size_t{kMmaK} * block.steps;
    tile_steps(&job.codes[block.a_offset + first_row * width], width, rows,
               &job.codes[block.b_offset], width, kBlockN, block.steps, acc.data());
    for (uint32_t column = 0; column < kBlockN; ++column)
      columns[column] = column / kChunk % 2 == 0 ? block.even_scale : block.odd_scale;
    promote_tile(acc.data(), rows, kBlockN, {block.row_scales + first_row, 1, columns},
                 &job.values[size_t{first_row} * kBlockN], kBlockN);
  }
}

bool TileJobs::retire(TileJob& job) {
  for (; job.done < job.blocks.size() && job.blocks[job.done].ready; ++job.done)
    ready_work_ -= work_of(job, job.blocks[job.done]);
  if (job.done < job.blocks.size()) return false;
  job.blocks.clear();
  job.codes.clear();
  job.done = 0;
  job.queued = false;
  return true;
}

void TileJobs::finish(TileJob& job) {
  if (threads_ > 1 && ready_work_ >= kWorkForTeam) return finish_all();
  if (job.rows > 0) finish_rows(job, 0, job.rows);
  if (retire(job)) std::erase(pending_, &job);
}

void TileJobs::finish_all() {
  // Few tiles are split by rows, so that every thread has something to do.
  const int64_t jobs = static_cast<int64_t>(pending_.size());
  const uint32_t parts = jobs < threads_ ? 2 : 1;
#pragma omp parallel for schedule(dynamic) num_threads(threads_)
  for (int64_t i = 0; i < jobs * parts; ++i) {
    TileJob& job = *pending_[i / parts];
    const uint32_t share = (job.rows + parts - 1) / parts;
    const uint32_t first = static_cast<uint32_t>(i % parts) * share;
    if (first < job.rows) finish_rows(job, first, std::min(share, job.rows - first));
  }
  std::erase_if(pending_, [this](TileJob* job) { return retire(*job); });
}

}  // namespace moetwin
