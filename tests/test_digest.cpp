#include <doctest/doctest.h>

#include "common/check.h"
#include "model/digest.h"
#include "tests/sample_result.h"

namespace moetwin {
namespace {

using test::sample_result;

/// XXH3 128-bit of no bytes, from the algorithm's own documentation.
constexpr const char* kEmptyDigest = "99aa06d3014798d86001c324468d497f";

// The pins were made with another language's packing and hashing of the same bytes.
TEST_CASE("digest: every stage of a hand-made result has its pinned digest") {
  const StageDigests digests = digest_stages(sample_result());
  CHECK(digests.slots == "0f6cc35a3a2d3997f0c6fe1c83f7c211");
  CHECK(digests.metadata == "6ff14b053b893817c005ff2367682c9f");
  CHECK(digests.l1 == "34b4dedcfa3125e1e55f5389edf23bca");
  CHECK(digests.l1_scales == "d58e1a09a33a6973b7f6c7e3b5db601d");
  CHECK(digests.l2 == "b74fcf6e9f5c7c6c2aea32769ac8703d");
  CHECK(digests.y == "dba13fea6b295256d51f403a8780f8af");
}

TEST_CASE("digest: neither capacity nor traffic enters a digest") {
  LayerResult result = sample_result();
  const StageDigests before = digest_stages(result);
  result.shape.max_tokens_per_rank = 1000;
  result.traffic.dispatch_bytes = 77;
  CHECK(digest_stages(result) == before);
}

TEST_CASE("digest: one changed bit changes its own stage and no other") {
  const StageDigests before = digest_stages(sample_result());
  for (const Stage changed : kStages) {
    CAPTURE(stage_name(changed));
    LayerResult result = sample_result();
    switch (changed) {
      case Stage::Slots:
        result.slots[6][1] ^= 1;
        break;
      case Stage::Metadata:
        result.rows[4].weight = -0.0f;
        break;
      case Stage::L1:
        result.l1_codes.back() ^= 0x80;
        break;
      case Stage::L1Scales:
        result.l1_scales.front() *= 2;
        break;
      case Stage::L2:
        result.l2[300] ^= 1;
        break;
      case Stage::Y:
        result.y[383] ^= 0x4000;
        break;
    }
    const StageDigests after = digest_stages(result);
    for (const Stage stage : kStages) {
      CAPTURE(stage_name(stage));
      CHECK((after.of(stage) == before.of(stage)) == (stage != changed));
    }
  }
}

TEST_CASE("digest: a slot that moves to the neighbouring list changes the digest") {
  LayerResult result = sample_result();
  const std::string before = digest_stages(result).slots;
  std::swap(result.slots[0], result.slots[1]);
  CHECK(digest_stages(result).slots != before);
}

TEST_CASE("digest: a stage that was not tapped has no digest, one with nothing in it has one") {
  LayerResult result = sample_result();
  result.l1_codes.clear();
  result.slots.clear();
  result.y.clear();
  const StageDigests partial = digest_stages(result);
  CHECK(partial.slots.empty());
  CHECK(partial.l1.empty());
  CHECK(partial.y.empty());
  CHECK(!partial.metadata.empty());
  CHECK(!partial.l1_scales.empty());
  CHECK(!partial.l2.empty());

  LayerResult masked;  // two tokens, no routed slot
  masked.shape = {1, 2, 1, 128, 128, 2};
  masked.tokens = {2};
  masked.slots = {{}, {}};
  masked.y.assign(256, 0);
  const StageDigests empty = digest_stages(masked);
  CHECK(empty.metadata == kEmptyDigest);
  CHECK(empty.l1 == kEmptyDigest);
  CHECK(empty.l1_scales == kEmptyDigest);
  CHECK(empty.l2 == kEmptyDigest);
  CHECK(!empty.y.empty());

  masked.slots.clear();  // now nobody knows whether a row was routed
  CHECK(digest_stages(masked).metadata.empty());
  masked.tokens = {0};
  masked.y.clear();
  CHECK(digest_stages(masked).metadata == kEmptyDigest);
  CHECK(digest_stages(masked).y == kEmptyDigest);
}

TEST_CASE("digest: an array whose size does not follow from shape and rows is refused") {
  LayerResult result = sample_result();
  result.l2.pop_back();
  CHECK_THROWS_AS(digest_stages(result), InternalError);
  result = sample_result();
  result.y.push_back(0);
  CHECK_THROWS_AS(digest_stages(result), InternalError);
  result = sample_result();
  result.slots.pop_back();
  CHECK_THROWS_AS(digest_stages(result), InternalError);
}

}  // namespace
}  // namespace moetwin
