// The one file that knows the paths of this build, so that all others compile alike anywhere.
#include "tests/paths.h"

namespace moetwin {

std::string moetwin_program() { return MOETWIN_PROGRAM; }

std::string source_root() { return MOETWIN_SOURCE_DIR; }

}  // namespace moetwin
