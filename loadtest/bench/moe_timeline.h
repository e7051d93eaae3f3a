// Where the time of a MoE layer goes, for `lynx-bench kernel --timeline`.
#pragma once

#include <string>

#include "loadtest/bench/moe_layers.h"

namespace lynx {

// A table over blocks and layers, in microseconds: moments from the end of the layer before; those of a
// block's end, from the end of the layer (negative); and sums.
std::string to_text(const cuda::MoeTimeline& timeline);

}  // namespace lynx
