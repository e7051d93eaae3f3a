// One plot as SVG text: unique experts (x) against the change of the loss (y) at one batch size, a line for
// each policy through its settings.
#pragma once

#include <string>

#include "loadtest/quality/results.h"

namespace lynx {

std::string pareto_plot(const Results& results, std::uint32_t batch);

}  // namespace lynx
