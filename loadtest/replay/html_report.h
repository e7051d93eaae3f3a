// One or two runs as one HTML file that needs nothing else: no script, no font, no image. Plots are inline
// SVG; the page follows the reader's light or dark mode, and prints in black on white.
#pragma once

#include <string>
#include <vector>

#include "loadtest/replay/comparison.h"
#include "loadtest/replay/run_view.h"

namespace lynx {

// comparison: of runs[0] and runs[1], or null.
std::string html_report(const std::vector<RunView>& runs, const Comparison* comparison);

// The parts, one file each.
std::string html_charts(const std::vector<RunView>& runs);
std::string html_tables(const std::vector<RunView>& runs);
std::string html_comparison(const Comparison& comparison);
const char* html_style();

// The same figures as a page of Markdown, without plots.
std::string markdown_report(const std::vector<RunView>& runs, const Comparison* comparison);

}  // namespace lynx
