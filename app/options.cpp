#include "app/options.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace moetwin {

void VerbOptions::argument(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what)->required();
}

void VerbOptions::optional_argument(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what);
}

void VerbOptions::more_arguments(const char* name, std::vector<std::string>& values,
                                 const std::string& what) {
  app_->add_option(name, values, what);
}

void VerbOptions::text(const char* name, std::string& value, const std::string& what) {
  app_->add_option(name, value, what);
}

void VerbOptions::texts(const char* name, std::vector<std::string>& values,
                        const std::string& what) {
  app_->add_option(name, values, what);
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
