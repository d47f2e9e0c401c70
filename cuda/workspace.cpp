#include "cuda/workspace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/check.h"
#include "cuda/cuda_error.h"

namespace moetwin {
namespace {

/// What a reader fetches at once.
constexpr uint64_t kPageBytes = uint64_t{1} << 20;

bool same_layout(const SymmetricLayout& a, const SymmetricLayout& b) {
  return std::equal(std::begin(a.offsets), std::end(a.offsets), std::begin(b.offsets)) &&
         std::equal(std::begin(a.bytes), std::end(a.bytes), std::begin(b.bytes));
}

template <class T>
void copy_in(uint8_t* target, const std::vector<T>& values, cudaStream_t stream) {
  if (values.empty()) return;
  check_cuda(cudaMemcpyAsync(target, values.data(), values.size() * sizeof(T),
                             cudaMemcpyHostToDevice, stream),
             "copying a launch's inputs");
}

void check_routes(const Problem& problem) {
  for (size_t rank = 0; rank < problem.ranks.size(); ++rank)
    for (const int32_t expert : problem.ranks[rank].topk_idx)
      if (expert != kMaskedExpert &&
          (expert < 0 || static_cast<uint32_t>(expert) >= problem.shape.experts))
        throw InputError("routing: topk_idx on rank " + std::to_string(rank) + " is " +
                         std::to_string(expert) + ", not -1 to " +
                         std::to_string(problem.shape.experts - 1));
}

/// Pages of one rank's buffer that have been read.
class PageCache {
 public:
  PageCache(const uint8_t* device, uint64_t bytes) : device_(device), bytes_(bytes) {}

  void read(uint64_t at, uint64_t bytes, uint8_t* out) {
    MOETWIN_CHECK(at + bytes <= bytes_);
    while (bytes != 0) {
      const std::vector<uint8_t>& page = fetch(at / kPageBytes);
      const uint64_t inside = at % kPageBytes;
      const uint64_t now = std::min<uint64_t>(bytes, page.size() - inside);
      std::memcpy(out, page.data() + inside, now);
      at += now;
      out += now;
      bytes -= now;
    }
  }

 private:
  const std::vector<uint8_t>& fetch(uint64_t number) {
    std::vector<uint8_t>& page = pages_[number];
    if (page.empty()) {
      const uint64_t first = number * kPageBytes;
      page.resize(std::min(kPageBytes, bytes_ - first));
      // Of another card's memory, too: the addresses say whose it is.
      check_cuda(cudaMemcpy(page.data(), device_ + first, page.size(), cudaMemcpyDefault),
                 "reading a launch's results");
    }
    return page;
  }

  const uint8_t* device_;
  uint64_t bytes_;
  std::map<uint64_t, std::vector<uint8_t>> pages_;
};

}  // namespace

void Workspace::prepare(const Shape& shape, const KernelPlan& plan, const RankBuffers& buffers,
                        uint8_t poison, cudaStream_t stream) {
  const SymmetricLayout layout = make_layout(shape, plan);
  if (ready_ && poison == poison_ && shape.ranks == shape_.ranks && buffers == buffers_ &&
      same_layout(layout, layout_))
    return;
  MOETWIN_CHECK(buffers.bases.size() >= shape.ranks &&
                buffers.local.first + buffers.local.count <= shape.ranks);
  ready_ = false;
  buffers_ = buffers;
  for (uint32_t place = 0; place < buffers.local.count; ++place) {
    uint8_t* const base = data(buffers.local.first + place);
    check_cuda(cudaMemsetAsync(base, poison, layout.total, stream), "poisoning memory");
    for (uint32_t r = 0; r < kNumRegions; ++r) {
      const Region region = static_cast<Region>(r);
      if (region_info(region).persistence == Persistence::Launch) continue;
      check_cuda(cudaMemsetAsync(base + layout.offset(region), 0, layout.size(region), stream),
                 "zeroing barrier words");
    }
  }
  layout_ = layout;
  shape_ = shape;
  poison_ = poison;
  ready_ = true;
}

void Workspace::upload(const Problem& problem, cudaStream_t stream) {
  check_routes(problem);
  for (uint32_t place = 0; place < buffers_.local.count; ++place) {
    const uint32_t rank = buffers_.local.first + place;
    const RankInput& input = problem.ranks[rank];
    uint8_t* const base = data(rank);
    copy_in(base + layout_.offset(Region::Tokens), input.x_codes, stream);
    copy_in(base + layout_.offset(Region::TokenScales), input.x_scales, stream);
    copy_in(base + layout_.offset(Region::TopkIdx), input.topk_idx, stream);
    copy_in(base + layout_.offset(Region::TopkWeights), input.topk_weights, stream);
  }
}

RegionReader Workspace::reader() const {
  auto caches = std::make_shared<std::vector<PageCache>>();
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
    caches->emplace_back(data(rank), layout_.total);
  return [caches, layout = layout_](uint32_t rank, Region region, uint64_t offset, uint64_t bytes,
                                    void* out) {
    MOETWIN_CHECK(offset + bytes <= layout.size(region));
    (*caches)[rank].read(layout.offset(region) + offset, bytes, static_cast<uint8_t*>(out));
  };
}

}  // namespace moetwin
