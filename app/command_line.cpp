#include "app/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/options.h"
#include "app/verbs.h"
#include "common/check.h"

namespace moetwin {
namespace {

constexpr Verb kVerbs[] = {
    {"run", "run a case on one backend: y, stages, findings, traffic", add_run},
    {"diff", "run a case on two backends and name the first differing bit", add_diff},
    {"case", "write a case file from a preset", add_case},
    {"golden", "record digests of many cases, or check recorded ones", add_golden},
    {"explain", "the journey of a token, pool row, block or expert through a run", add_explain},
    {"report", "a run as one page for a browser", add_report},
    {"layout", "the symmetric buffer of a case, region by region", add_layout},
    {"ring", "the smallest ring of a case that cannot deadlock, and why", add_ring},
    {"explore", "many schedules of a case: findings, behaviours, coverage", add_explore},
    {"fuzz", "random cases on two backends: findings, coverage", add_fuzz},
    {"shrink", "a smaller case with the same verdict", add_shrink},
    {"faults", "planted faults and generated mutants: the kill score", add_faults},
    {"numerics", "the error of each quantisation and combine choice; which explains a given y",
     add_numerics},
    {"bench", "speed, as ratios measured in one run", add_bench},
};

constexpr const char* kFooter =
    "Exit status: 0 fine, 1 a finding, 2 bad input or usage, 3 no device.\n\n"
    "Examples:\n"
    "  moetwin case small --out small.json\n"
    "  moetwin run small.json --schedule random:1 --reference\n"
    "  moetwin diff small.json --left sim --right naive\n"
    "  moetwin VERB --help\n";

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

int complain(const std::string& text, int status) {
  std::fputs(("moetwin: " + one_line(text) + "\n").c_str(), stderr);
  return status;
}

std::string verb_names() {
  std::string names;
  for (const Verb& verb : kVerbs) names += (names.empty() ? "" : ", ") + std::string(verb.name);
  return names;
}

bool is_verb(const std::string& name) {
  for (const Verb& verb : kVerbs)
    if (name == verb.name) return true;
  return false;
}

/// The parser's words for an option without its value are "--seed: 1 required N missing".
std::string usage_text(const CLI::ParseError& error) {
  const std::string text = one_line(error.what());
  constexpr std::string_view kCounted = ": 1 required ";
  const size_t at = text.find(kCounted);
  const size_t end = text.rfind(" missing");
  if (at == std::string::npos || end == std::string::npos) return text;
  const size_t value = at + kCounted.size();
  return fmt::format("{}: {} is missing", text.substr(0, at), text.substr(value, end - value));
}

/// A parse error as one line that ends with where to read on. `what` of CLI11 may be several.
int complain_of_usage(const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::string verb =
      arguments.empty() || !is_verb(arguments.front()) ? std::string() : arguments.front() + " ";
  return complain(fmt::format("{} (moetwin {}--help)", usage_text(error), verb), kExitBadInput);
}

/// Verbs write through stdio; a full disk or a closed pipe must not look like success.
int finish_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return complain("standard output: cannot be written", kExitBadInput);
}

int run_action(const VerbAction& action, const std::vector<std::string>& arguments) {
  std::string repeat = "moetwin";
  for (const std::string& argument : arguments) repeat += " " + shell_quote(argument);
  try {
    return finish_output(action());
  } catch (const InputError& error) {
    return complain(error.what(), kExitBadInput);
  } catch (const NoDeviceError& error) {
    return complain(error.what(), kExitNoDevice);
  } catch (const std::bad_alloc&) {
    return complain("--max-memory: the system has less memory than the case needs", kExitBadInput);
  } catch (const std::exception& error) {
    complain(fmt::format("a bug of moetwin itself: {}", error.what()), kExitFinding);
    std::fputs(("repeat: " + repeat + "\n").c_str(), stderr);
    return kExitFinding;
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  CLI::App app("The CPU twin of a fused expert-parallel MoE kernel.", "moetwin");
  app.set_version_flag("--version", "moetwin " MOETWIN_VERSION);
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, VerbAction>> actions;
  for (const Verb& verb : kVerbs) {
    CLI::App* subcommand = app.add_subcommand(verb.name, verb.summary);
    VerbOptions options(*subcommand);
    actions.emplace_back(subcommand, verb.add(options));
  }
  if (arguments.empty())
    return complain("the verb is missing: " + verb_names() + " (moetwin --help)", kExitBadInput);
  if (arguments.front().substr(0, 1) != "-" && !is_verb(arguments.front()))
    return complain(
        fmt::format("'{}' is not a verb: {} (moetwin --help)", arguments.front(), verb_names()),
        kExitBadInput);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return finish_output(kExitFine);
  } catch (const CLI::CallForVersion& version) {
    std::fputs((std::string(version.what()) + "\n").c_str(), stdout);
    return finish_output(kExitFine);
  } catch (const CLI::ParseError& error) {
    return complain_of_usage(error, arguments);
  }
  for (const auto& [subcommand, action] : actions)
    if (subcommand->parsed()) return run_action(action, arguments);
  return complain("the verb is missing: " + verb_names() + " (moetwin --help)", kExitBadInput);
}

}  // namespace moetwin
