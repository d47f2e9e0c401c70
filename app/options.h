// How a verb declares what it takes: a thin face of the option parser, so that the parser's headers
// are compiled once. Values stay text; arguments.h reads numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace moetwin {

/// Declares options of one verb. The variables given must outlive parsing.
class VerbOptions {
 public:
  explicit VerbOptions(CLI::App& app) : app_(&app) {}

  /// A word that must be there.
  void argument(const char* name, std::string& value, const std::string& what);
  /// A word that may be left out, and any number of them.
  void optional_argument(const char* name, std::string& value, const std::string& what);
  void more_arguments(const char* name, std::vector<std::string>& values, const std::string& what);
  void text(const char* name, std::string& value, const std::string& what);
  void texts(const char* name, std::vector<std::string>& values, const std::string& what);
  void flag(const char* name, bool& value, const std::string& what);
  /// What help ends with.
  void examples(const char* text);

  /// A verb below this one, exactly one of which must be given; `chosen` is called if it is.
  VerbOptions verb(const char* name, const std::string& what, std::function<void()> chosen);

 private:
  CLI::App* app_;
};

}  // namespace moetwin
