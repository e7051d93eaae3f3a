// When a refused request should ask again: after the running sequences have freed enough blocks, at the pace
// of the steps. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace lynx {

struct Holder {                        // one sequence that holds blocks
  std::uint32_t remaining_tokens = 0;  // at most: it may stop earlier
  std::uint32_t blocks = 0;
};

struct Shortage {
  std::uint32_t blocks = 0;  // needed beyond what is free; 0 = a slot in the batch is all it takes
  double step_seconds = 0;   // expected; 0 = not known yet
};

// Between 10 ms and 30 s.
std::chrono::milliseconds retry_after(std::vector<Holder> holders, const Shortage& shortage);

}  // namespace lynx
