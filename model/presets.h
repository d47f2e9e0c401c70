// The named cases that come with moetwin, and the changes a user makes to one from the command
// line. Both are JSON text: what they mean is the case reader's business.
#pragma once

#include <string>
#include <vector>

namespace moetwin {

/// Every preset, from small to large.
std::vector<std::string> preset_names();

/// The case file of a preset: uniform routing, normal data, ring scheduler, four SMs a rank, all
/// spelled out so that it can be edited. Throws InputError for an unknown name, listing those
/// known.
std::string preset_json(const std::string& name);

/// Applies `FIELD=VALUE` settings, in order, to a case file's text. FIELD is a dotted path
/// (`shape.topk`); sections that are not there yet are made. VALUE is JSON; text that is no JSON
/// and does not begin like an object, an array or a string is taken as a string
/// (`routing.kind=zipf`). The result is read as a case (paths from `base_directory`): throws
/// InputError for an unknown field or a value out of range as parse_case does.
std::string apply_settings(const std::string& case_json, const std::vector<std::string>& settings,
                           const std::string& base_directory = "");

}  // namespace moetwin
