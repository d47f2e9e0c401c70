// Pictures by gnuplot, which is looked for when a picture is asked for: a script in, an SVG file
// out. What is drawn is the caller's business.
#pragma once

#include <string>

namespace moetwin {

/// Throws InputError where there is no gnuplot.
void check_gnuplot();

/// Runs `script`, which sets no terminal and no output, and writes the picture to `path`, `width`
/// times `height` units large. The file appears whole or not at all. Throws InputError as
/// check_gnuplot does and where the file cannot be written; MOETWIN_CHECK holds for the script.
void write_svg(const std::string& path, const std::string& script, int width, int height);

/// `text` as a quoted string of gnuplot without markup.
std::string gnuplot_text(const std::string& text);

}  // namespace moetwin
