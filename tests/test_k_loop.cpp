// Without tile arithmetic a tile's k loop may be one step: held against the stepped loop, on whole
// runs and on broken ones.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "cpu_sim/simulate.h"
#include "model/case.h"

using namespace moetwin;

namespace {

Case case_with(const std::string& kernel) {
  return parse_case(
      R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":512,"intermediate":256,
          "max_tokens_per_rank":160},"tokens":[160,131],
          "routing":{"kind":"zipf","masked":0.1},"launches":2,"kernel":)" +
          kernel + "}",
      "");
}

RunResult run(const Case& c, bool full, const Mutant& mutant = {}) {
  RunOptions options;
  options.threads = 1;
  options.math = false;
  options.full_k_loop = full;
  return simulate(c, options, mutant);
}

/// The classes of a run's findings, each once, in one line.
std::string classes(const RunResult& result) {
  std::set<std::string> found;
  for (const Finding& finding : result.findings) found.insert(finding_class_name(finding.kind));
  std::string all;
  for (const std::string& name : found) all += name + " ";
  return all;
}

// With three SMs one is still in Linear1 when another begins Linear2, however long its k loop is.
const std::vector<std::string> kKernels = {
    R"({"sms_per_rank":1})", R"({"sms_per_rank":2,"stages":1})",
    R"({"sms_per_rank":1,"block_m":128,"stages":2})",
    R"({"sms_per_rank":3,"scheduler":"wave","experts_per_wave":1})"};

}  // namespace

TEST_CASE("k_loop: one step checks as much as the stepped loop and takes fewer events") {
  for (const std::string& kernel : kKernels) {
    CAPTURE(kernel);
    const Case c = case_with(kernel);
    const RunResult full = run(c, true);
    const RunResult fast = run(c, false);
    CHECK(full.findings.empty());
    CHECK(fast.findings.empty());
    CHECK(fast.counts.rows_pulled == full.counts.rows_pulled);
    CHECK(fast.counts.tiles == full.counts.tiles);
    CHECK(fast.counts.rows_combined == full.counts.rows_combined);
    CHECK(fast.state_digest == full.state_digest);
    CHECK(fast.counts.events < full.counts.events);
    // Scale factors of every block of K are held against their rows either way.
    CHECK(fast.counts.invariants_checked * 2 > full.counts.invariants_checked);
  }
}

TEST_CASE("k_loop: a broken protocol is found in the same classes either way") {
  const std::vector<Mutant> mutants = {
      {MutantKind::Drop, Step::PullPublishRow},
      {MutantKind::Drop, Step::MathReleaseBlock},
      {MutantKind::Drop, Step::LoadATile, 0, 0, 0},
      {MutantKind::Bytes, Step::LoadBExpect, 16},
      {MutantKind::Count, Step::MathReleaseStage, 1},
      {MutantKind::Drop, Step::MathReleaseStage},
      {MutantKind::Drop, Step::LoadAWaitsForRows},
      {MutantKind::Drop, Step::LoadAWaitsForLinear1},
      {MutantKind::Drop, Step::Linear2Scatter},
      {MutantKind::Drop, Step::CombineWait},
  };
  for (const std::string& kernel : kKernels) {
    const Case c = case_with(kernel);
    for (const Mutant& mutant : mutants) {
      CAPTURE(kernel);
      CAPTURE(std::string(step_words(mutant.step)));
      const std::string full = classes(run(c, true, mutant));
      CHECK(classes(run(c, false, mutant)) == full);
    }
  }
}

TEST_CASE("k_loop: a scale factor of a later block of K that is missing is found in one step") {
  // A ring that holds the whole pool: the place has no older value.
  const Case c = case_with(R"({"sms_per_rank":1,"ring_blocks":40})");
  // Each dispatch warp leaves out one store: block 1 of its 60th row, which lies in a block that
  // the first two tiles do not touch.
  const Mutant mutant = {MutantKind::Drop, Step::PullScales, 0, 4 * 60 + 1, 4 * 60 + 1};
  const std::string full = classes(run(c, true, mutant));
  CHECK(full.find("mismatch") != std::string::npos);
  CHECK(classes(run(c, false, mutant)) == full);
}
