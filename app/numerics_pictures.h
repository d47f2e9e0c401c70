// Pictures of the numerics bench: what each kind shows, which runs it needs and how it is drawn.
// The drawing program is gnuplot's (gnuplot.h).
#pragma once

#include <string>
#include <vector>

#include "app/numerics_runs.h"

namespace moetwin {

/// "errors, k, ...", for help and messages.
std::string picture_names();

/// The variants that a kind draws where the user names none; empty: all. Throws InputError for a
/// kind that is none.
std::vector<std::string> picture_variants(const std::string& kind);

/// Draws `runs`, or what `kind` varies of their case, to `path`. Throws InputError for a case that
/// cannot be varied so, and as write_svg().
void draw_picture(const std::string& kind, const std::string& path, const NumericsRuns& runs,
                  const NumericsOptions& options);

}  // namespace moetwin
