// Golden files: digests of many cases recorded on one machine, to be compared with another. Reads,
// writes and compares them; running the cases is the caller's work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/digest.h"

namespace moetwin {

/// What recorded the file: a card (card and driver) or a processor (cpu), when and with which
/// version.
struct GoldenMachine {
  std::string card;
  std::string driver;
  std::string cpu;
  std::string date;
  std::string version;

  friend bool operator==(const GoldenMachine&, const GoldenMachine&) = default;
};

/// One recorded case: the text of a case file (paths inside are relative to the golden file) and
/// the digests of its last launch. A stage that was not tapped is empty. Reading gives the case as
/// compact JSON with sorted keys.
struct GoldenCase {
  std::string case_text;
  StageDigests digests;

  friend bool operator==(const GoldenCase&, const GoldenCase&) = default;
};

struct GoldenFile {
  GoldenMachine machine;
  std::vector<GoldenCase> cases;

  friend bool operator==(const GoldenFile&, const GoldenFile&) = default;
};

/// The only value of "format" that is read, and the one that is written.
constexpr int64_t kGoldenFormat = 1;

/// Parses the text of a golden file. Strict: throws InputError, one line naming `name` and the
/// field, for broken JSON, an unknown, missing or repeated key, a wrong type, a digest that is not
/// 32 lower-case hex digits or null.
GoldenFile parse_golden(std::string_view text, const std::string& name);

/// The text of a golden file, one line a case and one its digests; parse_golden gives the same
/// contents back. Throws InputError where a
/// case text is not a JSON object or the machine is neither a card nor a processor.
std::string golden_text(const GoldenFile& file);

/// Reads and writes by path. Throw InputError naming the path where the file cannot be read or
/// written.
GoldenFile read_golden(const std::string& path);
void write_golden(const std::string& path, const GoldenFile& file);

/// One digest that is not as recorded.
struct GoldenDifference {
  size_t case_index = 0;
  Stage stage = Stage::Y;
  std::string recorded;
  std::string got;
};

/// Compares the digests of one case, stages in protocol order; a stage that either side lacks is
/// not compared.
std::vector<GoldenDifference> compare_golden(const GoldenFile& recorded, size_t case_index,
                                             const StageDigests& got);

}  // namespace moetwin
