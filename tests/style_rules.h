// The style rules of the source tree as functions from text to findings. They know nothing of how
// the tree is read; the tree, and the tests that feed them bad text, are in test_style.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace moetwin::style {

/// Text of each file by its path from the root of the tree, with '/' between folders.
using Files = std::map<std::string, std::string>;

/// One line each: "path:line: what is wrong", in the order of the files; none where all is well.
using Findings = std::vector<std::string>;

/// common -> model -> {cpu_sim, cuda} -> fuzz -> app, tests on top: a folder includes no later one,
/// cpu_sim and cuda never each other; and every quoted include names a file of the tree from its
/// root.
Findings include_direction(const Files& files);

/// Device code, and what is compiled with it, reaches no library of the host side, through however
/// many of our own headers: every .cu file, and all of common/.
Findings device_includes(const Files& files);

/// At most 100 columns, no tab, no space at a line's end, a newline at the file's end, at most 600
/// lines.
Findings text_form(const Files& files);

/// A file opens with at most ten lines of comment, tables in it (two spaces further in) not
/// counted; only the sources of tests may go without. Headers have #pragma once.
Findings file_heads(const Files& files);

/// No word that marks unfinished work, no banner of repeated signs, no path of somebody's machine.
Findings banned_words(const Files& files);

/// Library code neither ends the program nor prints, and leaves out what clang 14 cannot compile.
Findings library_calls(const Files& files);

/// Each .cpp and .cu lies where a target collects it: a folder's own level, model/numerics,
/// cuda/ranks, app/yardstick, or a program's folder in tests/.
Findings belongs_to_target(const Files& files);

/// `names`: entries of the top level. Only what the tree's map lists.
Findings top_level(const std::vector<std::string>& names);

}  // namespace moetwin::style
