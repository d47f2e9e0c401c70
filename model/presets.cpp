#include "model/presets.h"

#include <algorithm>
#include <string_view>

#include "common/check.h"
#include "common/shape.h"
#include "model/case.h"
#include "model/case_writer.h"
#include "model/json_reader.h"

namespace moetwin {
namespace {

struct Preset {
  const char* name;
  Shape shape;
};

// Published sizes: Mixtral 8x7B, DeepSeek-V3 and the two DeepSeek-V4 models; few tokens a rank, as
// in decoding.
constexpr Preset kPresets[] = {
    {"tiny", {2, 4, 2, 128, 128, 8}},          {"small", {4, 32, 8, 1024, 512, 64}},
    {"mixtral", {8, 8, 2, 4096, 14336, 16}},   {"v3", {8, 256, 8, 7168, 2048, 16}},
    {"v4_flash", {8, 256, 6, 4096, 2048, 16}}, {"v4_pro", {8, 384, 6, 7168, 3072, 16}},
};

// VALUE of a setting: JSON, or else a bare word.
OrderedJson setting_value(const std::string& field, const std::string& text) {
  try {
    parse_json(text, "VALUE");
    return OrderedJson::parse(text);
  } catch (const InputError& error) {
    constexpr std::string_view kStructured = "{[\"";
    if (!text.empty() && kStructured.find(text.front()) != std::string_view::npos) {
      refuse(field, error.what());
    }
    return OrderedJson(text);
  }
}

void apply_setting(OrderedJson& document, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse("--set", show_value(Json(setting)) + " is not FIELD=VALUE");
  }
  const std::string field = setting.substr(0, equals);
  OrderedJson* place = &document;
  std::string path;
  size_t depth = 0;
  for (size_t begin = 0; begin <= field.size(); ++depth) {
    const size_t end = std::min(field.find('.', begin), field.size());
    const std::string key = field.substr(begin, end - begin);
    if (key.empty() || depth == kMaxJsonDepth) {
      refuse("--set", show_value(Json(field)) + " is not a dotted path such as shape.topk");
    }
    if (place->is_null()) *place = OrderedJson::object();
    if (!place->is_object()) {
      refuse(key_path(path, key), "cannot be set; " + path + " is not an object");
    }
    place = &(*place)[key];
    path = key_path(path, key);
    begin = end + 1;
  }
  *place = setting_value(path, setting.substr(equals + 1));
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::string preset_json(const std::string& name) {
  std::string known;
  for (const Preset& preset : kPresets) {
    if (name == preset.name) {
      return layout_case({{"format", kCaseFormat},
                          {"shape", shape_json(preset.shape)},
                          {"routing", {{"kind", "uniform"}, {"seed", 1}}},
                          {"data", {{"kind", "normal"}, {"seed", 1}}},
                          {"kernel", {{"sms_per_rank", 4}, {"scheduler", "ring"}}}});
    }
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  refuse("preset", show_value(Json(name)) + " is not one of " + known);
}

std::string apply_settings(const std::string& case_json, const std::vector<std::string>& settings,
                           const std::string& base_directory) {
  const Json checked = parse_json(case_json, "case");
  if (!checked.is_object()) refuse_value("case", checked, "an object");
  OrderedJson document = OrderedJson::parse(case_json);
  for (const std::string& setting : settings) apply_setting(document, setting);
  const std::string text = layout_case(document);
  parse_case(text, base_directory);
  return text;
}

}  // namespace moetwin
