#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/check.h"
#include "model/golden_vectors.h"
#include "tests/paths.h"
#include "tests/simd_targets.h"

namespace moetwin {
namespace {

const std::string kRecorded = test_data("wgmma_e4m3_h200.bin");

std::vector<char> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A file of a test's own, gone with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<char>& bytes)
      : path_((std::filesystem::temp_directory_path() /
               ("moetwin_golden_vectors_" + std::to_string(reinterpret_cast<uintptr_t>(this))))
                  .string()) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::vector<char>& bytes) {
  const TemporaryFile file(bytes);
  try {
    check_golden_vectors(file.path());
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("golden_vectors: both forms of the model give every output that the H200 gave") {
  test::for_each_simd_target([] {
    const GoldenVectorReport report = check_golden_vectors(kRecorded);
    CHECK(report.blocks.size() == 19);
    CHECK(report.blocks.front() == "uniform_c0");
    CHECK(report.blocks.back() == "small_ctiny_k128");
    CHECK(report.total == 19 * 512);
    CHECK(report.differences == 0);
    CHECK(!report.first);
  });
}

TEST_CASE("golden_vectors: one changed bit of one output is found and placed") {
  std::vector<char> bytes = read_bytes(kRecorded);
  const size_t first_d = 24 + 16 + 64 * 32 + 8 * 32 + 512 * 4;
  bytes[first_d + 4 * (8 * 5 + 3)] ^= 1;
  const TemporaryFile file(bytes);
  const GoldenVectorReport report = check_golden_vectors(file.path());
  CHECK(report.differences == 1);
  REQUIRE(report.first);
  CHECK(report.first->block == "uniform_c0");
  CHECK(report.first->row == 5);
  CHECK(report.first->column == 3);
  CHECK(report.first->definition == report.first->tile);
  CHECK((report.first->definition ^ report.first->recorded) == 1);
}

TEST_CASE("golden_vectors: a file that breaks the format is refused with one line") {
  const std::vector<char> good = read_bytes(kRecorded);
  const auto with_word = [&](size_t at, uint32_t value) {
    std::vector<char> bytes = good;
    std::memcpy(&bytes[at], &value, sizeof(value));
    return bytes;
  };
  CHECK(contains(error_of({}), "holds no block"));
  CHECK(contains(error_of(with_word(24, 0)), "steps = 0, must be 1 to 1024"));
  CHECK(contains(error_of(with_word(24, 0xFFFFFFFF)), "steps = 4294967295, must be 1 to 1024"));
  CHECK(contains(error_of(with_word(24, 1024)), "inside a block"));
  CHECK(contains(error_of(with_word(28, 65)), "rows = 65, must be 64"));
  CHECK(contains(error_of(with_word(32, 7)), "columns = 7, must be 8"));
  CHECK(contains(error_of(with_word(36, 1)), "reserved word = 1, must be 0"));
  for (const size_t size : {size_t{1}, size_t{23}, size_t{30}, size_t{100}, good.size() - 1}) {
    CAPTURE(size);
    const std::string error =
        error_of(std::vector<char>(good.begin(), good.begin() + static_cast<long>(size)));
    CHECK(contains(error, "inside a block"));
    CHECK(!contains(error, "\n"));
  }
  CHECK_THROWS_AS(check_golden_vectors("/nonexistent/vectors.bin"), InputError);
}

}  // namespace
}  // namespace moetwin
