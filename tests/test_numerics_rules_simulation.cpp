#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "cpu_sim/simulate.h"
#include "model/case.h"
#include "model/naive.h"
#include "model/result_tensors.h"
#include "tests/numerics_rules.h"
#include "tests/numerics_witness.h"

namespace moetwin {
namespace {

using test::Change;
using test::ChangeInfo;

/// A case that runs `problem`, through a data file that lives as long as this.
class FileCase {
 public:
  FileCase(const std::string& name, const Problem& problem)
      : path_(std::filesystem::temp_directory_path() /
              ("moetwin_rules_" + name + "_" + std::to_string(reinterpret_cast<uintptr_t>(this)) +
               ".safetensors")) {
    write_dump(path_.string(), problem, run_naive(problem));
    case_.shape = problem.shape;
    case_.tokens = {1};
    case_.clamp = problem.clamp;
    case_.data.kind = DataKind::File;
    case_.data.path = path_.string();
    case_.routing.kind = RoutingKind::File;
    case_.routing.path = path_.string();
    case_.kernel.sms_per_rank = 2;
    set_launches(case_, 1);
  }
  ~FileCase() { std::filesystem::remove(path_); }
  FileCase(const FileCase&) = delete;
  FileCase& operator=(const FileCase&) = delete;

  const Case& get() const { return case_; }

 private:
  std::filesystem::path path_;
  Case case_;
};

TEST_CASE("numerics_rules: the simulated kernel follows every rule where its change would show") {
  for (const ChangeInfo& info : test::all_changes()) {
    if (!seen_in_layer(info)) continue;
    const std::string change = info.id;
    CAPTURE(change);
    const std::optional<Problem> problem = test::find_layer_witness(info.change);
    REQUIRE(problem);
    const LayerResult contract = test::eval_layer(*problem, Change::None);
    const FileCase file(change, *problem);
    RunOptions options;
    options.threads = 1;
    const RunResult run = simulate(file.get(), options);
    CHECK(!run.failed());
    REQUIRE(run.launches.size() == 1);
    const LayerResult& simulated = run.launches[0];
    CHECK(simulated.l1_codes == contract.l1_codes);
    REQUIRE(simulated.l1_scales.size() == contract.l1_scales.size());
    CHECK(std::memcmp(simulated.l1_scales.data(), contract.l1_scales.data(),
                      contract.l1_scales.size() * sizeof(float)) == 0);
    CHECK(simulated.l2 == contract.l2);
    CHECK(simulated.y == contract.y);
  }
}

}  // namespace
}  // namespace moetwin
