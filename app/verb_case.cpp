// case: a case file from a preset and settings.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/check.h"
#include "model/case.h"
#include "model/output_file.h"
#include "model/presets.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "FIELD is a dotted path of a case file, VALUE is JSON or a bare word; sections that are not\n"
    "there yet are made. Paths of files are relative to the case file.\n\n"
    "Examples:\n"
    "  moetwin case tiny\n"
    "  moetwin case small --set shape.topk=4 kernel.block_m=128 --out small.json\n"
    "  moetwin case small --set routing='{\"kind\":\"zipf\",\"alpha\":1.2}' --out zipf.json\n"
    "  moetwin case v3 --set tokens='[16,0,3,16,16,1,9,16]' launches=2 --out v3.json\n";

struct Options {
  std::string preset;
  std::vector<std::string> settings;
  std::string out;
};

int make_case(const Options& o) {
  std::string directory;
  if (!o.out.empty()) {
    check_output_path("--out", o.out);
    directory = std::filesystem::path(o.out).parent_path().string();
  }
  const std::string text = apply_settings(preset_json(o.preset), o.settings, directory);
  const Case c = parse_case(text, directory);
  check_case(c, find_backend("--backend", "sim"), {});
  if (o.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return kExitFine;
  }
  write_file(o.out, text, "--out");
  std::fputs((case_lines(c, false) + "written    " + o.out + "\ntry        " +
              CommandText("run").word(o.out).flag("--reference", true).text() + "\n")
                 .c_str(),
             stdout);
  return kExitFine;
}

std::string preset_list() {
  std::string names;
  for (const std::string& name : preset_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

VerbAction add_case(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("PRESET", o->preset, preset_list());
  options.texts("--set", o->settings, "FIELD=VALUE, any number of them, applied in order");
  options.text("--out", o->out, "file to write (standard output)");
  options.examples(kExamples);
  return [o] { return make_case(*o); };
}

}  // namespace moetwin
