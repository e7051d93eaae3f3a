// The results as JSON (everything), Markdown (the tables) and one self-contained HTML page (tables and
// plots).
#pragma once

#include <string>

#include "loadtest/quality/results.h"

namespace lynx {

std::string to_json(const Results& results);
std::string to_markdown(const Results& results);
std::string to_html(const Results& results);

}  // namespace lynx
