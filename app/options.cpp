#include "app/options.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace moetwin {
namespace {

/// What stands for an option's value in help and in a message that it is missing.
struct Placeholder {
  const char* option;
  const char* value;
};
constexpr Placeholder kPlaceholders[] = {
    {"--backend", "BACKEND"},
    {"--block", "RANK:BLOCK"},
    {"--cases", "N"},
    {"--dump", "FILE"},
    {"--expert", "N"},
    {"--gpus", "N"},
    {"--jobs", "N"},
    {"--launch", "N"},
    {"--left", "SIDE"},
    {"--max-memory", "GIB"},
    {"--only", "ID"},
    {"--out", "FILE"},
    {"--policy", "POLICY"},
    {"--preemptions", "N"},
    {"--right", "SIDE"},
    {"--row", "RANK:ROW"},
    {"--schedule", "SCHEDULE"},
    {"--schedules", "N"},
    {"--seconds", "S"},
    {"--seed", "N"},
    {"--set", "FIELD=VALUE"},
    {"--threads", "N"},
    {"--token", "RANK:TOKEN"},
    {"--trace", "FILE"},
};

const char* placeholder_of(const std::string& option) {
  for (const Placeholder& known : kPlaceholders)
    if (option == known.option) return known.value;
  return "NAME";
}

}  // namespace

void VerbOptions::argument(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what)->required()->type_name("");
}

void VerbOptions::optional_argument(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what)->type_name("");
}

void VerbOptions::more_arguments(const char* name, std::vector<std::string>& values,
                                 const std::string& what) {
  app_->add_option(name, values, what)->type_name("");
}

void VerbOptions::text(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what)->type_name(placeholder_of(name));
}

void VerbOptions::texts(const char* name, std::vector<std::string>& values,
                        const std::string& what) {
  app_->add_option(name, values, what)->type_name(placeholder_of(name));
}

void VerbOptions::flag(const char* name, bool& value, const std::string& what) {
  app_->add_flag(name, value, what)->disable_flag_override();
}

void VerbOptions::examples(const char* text) { app_->footer(text); }

VerbOptions VerbOptions::verb(const char* name, const std::string& what,
                              std::function<void()> chosen) {
  app_->require_subcommand(1);
  CLI::App* below = app_->add_subcommand(name, what);
  below->callback(std::move(chosen));
  return VerbOptions(*below);
}

}  // namespace moetwin
