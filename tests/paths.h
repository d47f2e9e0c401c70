// Where the tests find the program, the source tree and their data.
#pragma once

#include <string>

namespace moetwin {

std::string moetwin_program();

/// The root of the source tree.
std::string source_root();

/// The path of a file in tests/data.
inline std::string test_data(const std::string& name) {
  return source_root() + "/tests/data/" + name;
}

}  // namespace moetwin
