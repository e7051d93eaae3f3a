// What one decode step did to one sequence: a line of its receipt (lynx.receipt).
#pragma once

#include <cstdint>

namespace lynx {

struct StepReceipt {
  std::uint32_t assignments = 0;  // layers x k
  std::uint32_t remapped = 0;     // of them: on an expert outside the row's exact top-k
  float router_mass = 1;          // probability kept of that top-k, as a share of it: mean of the layers
  std::uint32_t batch = 0;        // sequences of the step, this one among them

  bool operator==(const StepReceipt&) const = default;
};

}  // namespace lynx
