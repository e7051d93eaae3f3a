// Where the time of a whole decode step goes, for `lynx-bench step --timeline`: see
// kernels/cuda/step_timeline.h.
#pragma once

#include <cstdint>
#include <functional>

namespace lynx {

bool has_step_timeline();  // this build's kernels leave marks

// Runs `step` some times, and prints for each kernel of a layer how long the kernel after it waits for it
// alone: from when the one may begin to when the next may.
void print_step_timeline(const std::function<void()>& step, std::uint32_t steps, std::uint32_t rows,
                         std::uint32_t layers);

}  // namespace lynx
