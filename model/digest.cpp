#include "model/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <memory>
#include <vector>

#include "common/check.h"

namespace moetwin {
namespace {

static_assert(std::endian::native == std::endian::little,
              "digests are over little-endian bytes, taken from memory as they lie");
static_assert(sizeof(RoutedRow) == 20, "the metadata digest hashes rows as they lie in memory");

class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) {
    MOETWIN_CHECK(state_ != nullptr);
    MOETWIN_CHECK(XXH3_128bits_reset(state_.get()) == XXH_OK);
  }

  template <typename T>
  void add(const std::vector<T>& values) {
    if (values.empty()) return;
    MOETWIN_CHECK(XXH3_128bits_update(state_.get(), values.data(), values.size() * sizeof(T)) ==
                  XXH_OK);
  }

  void add(uint32_t value) {
    MOETWIN_CHECK(XXH3_128bits_update(state_.get(), &value, sizeof value) == XXH_OK);
  }

  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

template <typename T>
std::string digest_of(const std::vector<T>& values) {
  Hasher hasher;
  hasher.add(values);
  return hasher.hex();
}

std::string digest_of_slots(const std::vector<std::vector<uint32_t>>& slots) {
  Hasher hasher;
  for (const std::vector<uint32_t>& list : slots) {
    hasher.add(static_cast<uint32_t>(list.size()));
    hasher.add(list);
  }
  return hasher.hex();
}

uint64_t total_tokens(const LayerResult& result) {
  uint64_t total = 0;
  for (const uint32_t tokens : result.tokens) total += tokens;
  return total;
}

bool slots_are_all_empty(const LayerResult& result) {
  for (const std::vector<uint32_t>& list : result.slots) {
    if (!list.empty()) return false;
  }
  return !result.slots.empty();
}

/// Whether it is known that no row was routed, so that an empty row stage is a complete one.
bool has_no_routed_rows(const LayerResult& result) {
  return total_tokens(result) == 0 || (result.rows.empty() && slots_are_all_empty(result));
}

}  // namespace

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::Slots:
      return "slots";
    case Stage::Metadata:
      return "metadata";
    case Stage::L1:
      return "l1";
    case Stage::L1Scales:
      return "l1_scales";
    case Stage::L2:
      return "l2";
    case Stage::Y:
      return "y";
  }
  MOETWIN_CHECK(false);
  return "";
}

bool has_stage(const LayerResult& result, Stage stage) {
  const uint64_t rows = result.rows.size();
  const auto row_stage = [&](uint64_t size, uint64_t columns) {
    if (size == 0) return has_no_routed_rows(result);
    MOETWIN_CHECK(size == rows * columns);
    return true;
  };
  switch (stage) {
    case Stage::Slots:
      if (result.slots.empty()) return false;
      MOETWIN_CHECK(result.slots.size() == uint64_t{result.shape.ranks} *
                                               result.shape.num_local_experts() *
                                               result.shape.ranks);
      return true;
    case Stage::Metadata:
      return rows > 0 || has_no_routed_rows(result);
    case Stage::L1:
      return row_stage(result.l1_codes.size(), result.shape.intermediate);
    case Stage::L1Scales:
      return row_stage(result.l1_scales.size(), result.shape.linear1_scale_groups());
    case Stage::L2:
      return row_stage(result.l2.size(), result.shape.hidden);
    case Stage::Y: {
      const uint64_t size = total_tokens(result) * result.shape.hidden;
      MOETWIN_CHECK(result.y.empty() || result.y.size() == size);
      return result.y.size() == size;
    }
  }
  MOETWIN_CHECK(false);
  return false;
}

const std::string& StageDigests::of(Stage stage) const {
  switch (stage) {
    case Stage::Slots:
      return slots;
    case Stage::Metadata:
      return metadata;
    case Stage::L1:
      return l1;
    case Stage::L1Scales:
      return l1_scales;
    case Stage::L2:
      return l2;
    case Stage::Y:
      break;
  }
  return y;
}

std::string& StageDigests::of(Stage stage) {
  return const_cast<std::string&>(static_cast<const StageDigests&>(*this).of(stage));
}

StageDigests digest_stages(const LayerResult& result) {
  StageDigests digests;
  if (has_stage(result, Stage::Slots)) digests.slots = digest_of_slots(result.slots);
  if (has_stage(result, Stage::Metadata)) digests.metadata = digest_of(result.rows);
  if (has_stage(result, Stage::L1)) digests.l1 = digest_of(result.l1_codes);
  if (has_stage(result, Stage::L1Scales)) digests.l1_scales = digest_of(result.l1_scales);
  if (has_stage(result, Stage::L2)) digests.l2 = digest_of(result.l2);
  if (has_stage(result, Stage::Y)) digests.y = digest_of(result.y);
  return digests;
}

}  // namespace moetwin
