#include "model/golden_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.h"
#include "model/json_reader.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

constexpr size_t kDigestDigits = 32;
constexpr size_t kMaxMachineText = 256;

const Json& required(JsonObject& object, const char* key) {
  const Json* value = object.find(key);
  if (value == nullptr) refuse(object.path_of(key), "missing");
  return *value;
}

GoldenMachine parse_machine(const Json& value) {
  JsonObject object(value, "machine");
  GoldenMachine machine;
  machine.card = object.text_or("card", kMaxMachineText, "");
  machine.driver = object.text_or("driver", kMaxMachineText, "");
  machine.cpu = object.text_or("cpu", kMaxMachineText, "");
  machine.date = object.text_or("date", kMaxMachineText, "");
  machine.version = object.text_or("version", kMaxMachineText, "");
  object.finish();
  return machine;
}

bool is_digest(const std::string& text) {
  return text.size() == kDigestDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

StageDigests parse_digests(const Json& value, const std::string& path) {
  JsonObject object(value, path);
  StageDigests digests;
  for (const Stage stage : kStages) {
    const Json& digest = required(object, stage_name(stage));
    if (digest.is_null()) continue;
    if (!digest.is_string() || !is_digest(digest.get_ref<const std::string&>())) {
      refuse_value(object.path_of(stage_name(stage)), digest, "32 lower-case hex digits or null");
    }
    digests.of(stage) = digest.get<std::string>();
  }
  object.finish();
  return digests;
}

/// Why a machine cannot stand in a golden file, or nothing.
const char* machine_fault(const GoldenMachine& machine) {
  const bool is_card = !machine.card.empty();
  if (is_card == !machine.cpu.empty()) return "must name either a card or a cpu";
  if (is_card == machine.driver.empty()) return "a card and its driver go together";
  if (machine.date.empty()) return "date is missing";
  if (machine.version.empty()) return "version is missing";
  return nullptr;
}

GoldenFile golden_of(const Json& document) {
  if (!document.is_object()) refuse_value("golden file", document, "an object");
  JsonObject object(document, "");
  GoldenFile file;
  object.integer("format", {kGoldenFormat, kGoldenFormat, 1});
  file.machine = parse_machine(required(object, "machine"));
  if (const char* fault = machine_fault(file.machine)) refuse("machine", fault);
  const Json& cases = read_array(required(object, "cases"), "cases", "an array of cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string path = index_path("cases", i);
    JsonObject entry(cases[i], path);
    const Json& text = required(entry, "case");
    if (!text.is_object()) refuse_value(entry.path_of("case"), text, "a case object");
    StageDigests digests = parse_digests(required(entry, "digests"), entry.path_of("digests"));
    entry.finish();
    file.cases.push_back({text.dump(), std::move(digests)});
  }
  object.finish();
  return file;
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string machine_text(const GoldenMachine& machine) {
  std::string text;
  const auto field = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", name, quoted(value));
  };
  field("card", machine.card);
  field("driver", machine.driver);
  field("cpu", machine.cpu);
  field("date", machine.date);
  field("version", machine.version);
  return "{" + text + "}";
}

std::string digests_text(const StageDigests& digests) {
  std::string text;
  for (const Stage stage : kStages) {
    const std::string& digest = digests.of(stage);
    MOETWIN_CHECK(digest.empty() || is_digest(digest));
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", stage_name(stage),
                        digest.empty() ? "null" : quoted(digest));
  }
  return "{" + text + "}";
}

}  // namespace

GoldenFile parse_golden(std::string_view text, const std::string& name) {
  try {
    return golden_of(parse_json(text, "golden file"));
  } catch (const InputError& error) {
    throw InputError(name + ": " + error.what());
  }
}

std::string golden_text(const GoldenFile& file) {
  if (const char* fault = machine_fault(file.machine)) refuse("machine", fault);
  std::string text = fmt::format("{{\"format\": {},\n \"machine\": {},\n \"cases\": [",
                                 kGoldenFormat, machine_text(file.machine));
  for (size_t i = 0; i < file.cases.size(); ++i) {
    const std::string path = index_path("cases", i) + ".case";
    const Json value = parse_json(file.cases[i].case_text, "golden case");
    if (!value.is_object()) refuse_value(path, value, "a case object");
    text += fmt::format("{}\n  {{\"case\": {},\n   \"digests\": {}}}", i == 0 ? "" : ",",
                        value.dump(), digests_text(file.cases[i].digests));
  }
  return text + "]}\n";
}

GoldenFile read_golden(const std::string& path) {
  return parse_golden(read_json_file(path, "golden file"), path);
}

void write_golden(const std::string& path, const GoldenFile& file) {
  write_file(path, golden_text(file), "golden file");
}

std::vector<GoldenDifference> compare_golden(const GoldenFile& recorded, size_t case_index,
                                             const StageDigests& got) {
  MOETWIN_CHECK(case_index < recorded.cases.size());
  std::vector<GoldenDifference> differences;
  const StageDigests& expected = recorded.cases[case_index].digests;
  for (const Stage stage : kStages) {
    const std::string& left = expected.of(stage);
    const std::string& right = got.of(stage);
    if (left.empty() || right.empty() || left == right) continue;
    differences.push_back({case_index, stage, left, right});
  }
  return differences;
}

}  // namespace moetwin
