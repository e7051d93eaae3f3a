// How the kernels for prompts cut the rows of each active expert into tiles: into as few of kMostRows as
// there can be, in even shares of whole groups of kRowGroup.
#pragma once

#include "kernels/cuda/device_plan.h"
#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

// first [A + 1]: the tiles before each of the A active experts, and all of them. By the first warp of a
// block; `visit` gets the index of each active expert once. Returns A.
template <unsigned kMostRows, typename Visit>
__device__ inline std::uint32_t count_row_tiles(const DevicePlan& plan, std::uint32_t* first, Visit visit) {
  const unsigned lane = threadIdx.x;
  const std::uint32_t experts = *plan.count;
  std::uint32_t before = 0;
  for (std::uint32_t base = 0; base < experts; base += kWarp) {
    const std::uint32_t i = base + lane;
    std::uint32_t sum = 0;
    if (i < experts) {
      visit(i);
      sum = ceil_div(plan.offsets[i + 1] - plan.offsets[i], kMostRows);
    }
    sum = warp_prefix_sum(sum, lane);
    if (i < experts) first[i + 1] = before + sum;
    before += __shfl_sync(kAllLanes, sum, kWarp - 1);
  }
  if (lane == 0) first[0] = 0;
  return experts;
}

// Whose tile it is, as an index among the active experts; row_tile < first[experts].
__device__ inline std::uint32_t active_expert_of(const std::uint32_t* first, std::uint32_t experts,
                                                 std::uint32_t row_tile) {
  std::uint32_t low = 0;
  std::uint32_t high = experts;  // first[low] <= row_tile < first[high]
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (first[middle] <= row_tile ? low : high) = middle;
  }
  return low;
}

// Which of its expert's rows a tile has. first: that of the expert, and of the next one.
struct RowShare {
  std::uint32_t begin, end;
};
template <unsigned kRowGroup>
__device__ inline RowShare row_share(std::uint32_t rows, const std::uint32_t* first, std::uint32_t row_tile) {
  const std::uint32_t groups = ceil_div(rows, kRowGroup);
  const std::uint32_t tiles = first[1] - first[0];
  const std::uint32_t index = row_tile - first[0];
  const std::uint32_t begin = groups * index / tiles * kRowGroup;
  const std::uint32_t end = min(rows, groups * (index + 1) / tiles * kRowGroup);
  return {begin, end};
}

}  // namespace lynx::cuda
