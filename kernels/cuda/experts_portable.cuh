// How a block of experts_portable.cu multiplies: its warps stream the packed weights (experts_layout.h) from
// memory straight into matrix fragments, the rows come from L1 and L2.
#pragma once

#include "kernels/cuda/experts_job.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::portable_experts {

inline constexpr unsigned kQuarters = 4;     // of the inputs
inline constexpr unsigned kUnitsOfTask = 2;  // of outputs: one a half of the warps
inline constexpr unsigned kThreads = kQuarters * kUnitsOfTask * kWarp;
inline constexpr unsigned kOutputs = kUnitsOfTask * kUnitOutputs;
inline constexpr unsigned kRowTile = 8;

using Job = MatrixJob;

// What a block works on: rows of an expert, some of its outputs, a part of its inputs.
struct Task {
  const std::byte* weights;  // of this warp's unit: its quarter of the first 128 inputs
  std::uint32_t first_pair, rows;
  std::uint32_t unit;    // this block's first
  std::uint32_t blocks;  // of 32 inputs
  std::uint32_t first_input;
  std::uint32_t part;
  bool has_unit;               // this warp's is within the matrix
  std::uint32_t column_bytes;  // from its weights to those of the next 128 inputs
};

struct Warp {
  unsigned lane = threadIdx.x % kWarp;
  unsigned quarter = warp_index() % kQuarters;
  unsigned unit = warp_index() / kQuarters;
};

__device__ inline Task task_of(const Job& job, const Warp& warp) {
  const DevicePlan& plan = job.args.plan;
  const MatrixLayout& m = job.matrix;
  Task t;
  t.first_pair = plan.offsets[blockIdx.y];
  t.rows = plan.offsets[blockIdx.y + 1] - t.first_pair;
  t.unit = blockIdx.x * kUnitsOfTask;
  t.part = blockIdx.z;
  const std::uint32_t first_col = t.part * m.part_cols;
  t.first_input = first_col * kUnitInputs;
  t.blocks = min(m.part_cols * kUnitInputs, m.inputs - t.first_input) / kBlockInputs;
  t.has_unit = t.unit + warp.unit < m.unit_rows;
  t.column_bytes = column_bytes(m, t.unit + warp.unit);
  t.weights = job.args.packed + plan.active[blockIdx.y] * job.expert_bytes + m.expert_offset +
              unit_offset(m, t.unit + warp.unit, first_col) + warp.quarter * (kUnitBytes / kQuarters) +
              warp.lane * 16;
  return t;
}

// 32 inputs of a unit: [tile of 16 outputs][half of the inputs].
struct Weights {
  uint4 at[2][2];
};

// Block `block` of 32 inputs: zeros past the end.
__device__ inline Weights load_weights(const Task& t, const Warp& warp, std::uint32_t column) {
  Weights w = {};
  if (!t.has_unit || column * kQuarters + warp.quarter >= t.blocks) return w;
  const std::byte* from = t.weights + std::size_t{column} * t.column_bytes;
#pragma unroll
  for (unsigned tile = 0; tile < 2; ++tile)
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) w.at[tile][half] = load_weight(from + tile * 1024 + half * 512);
  return w;
}

template <unsigned kTiles>
using Sums = float[2][kTiles][4];  // [tile of outputs][tile of rows]

// inputs: of this lane's row in each tile, or null.
template <unsigned kTiles>
__device__ inline void multiply(Sums<kTiles>& sum, const Weights& w,
                                const std::uint16_t* const (&inputs)[kTiles], std::uint32_t first) {
#pragma unroll
  for (unsigned n = 0; n < kTiles; ++n) {
    const uint4 b = inputs[n] == nullptr ? uint4{} : *reinterpret_cast<const uint4*>(inputs[n] + first);
#pragma unroll
    for (unsigned tile = 0; tile < 2; ++tile) {
      const uint4& low = w.at[tile][0];
      const uint4& high = w.at[tile][1];
      mma_16816(sum[tile][n], low.x, low.y, low.z, low.w, b.x, b.y);
      mma_16816(sum[tile][n], high.x, high.y, high.z, high.w, b.z, b.w);
    }
  }
}

// The warp's quarter of the inputs, kAhead columns of units in flight.
template <unsigned kTiles>
__device__ inline void multiply_all(Sums<kTiles>& sum, const Task& t, const Warp& warp,
                                    const std::uint16_t* const (&inputs)[kTiles]) {
  constexpr unsigned kAhead = kTiles <= 2 ? 3 : 2;
  const std::uint32_t columns = ceil_div(t.blocks, kQuarters);
  Weights ahead[kAhead];
#pragma unroll
  for (unsigned i = 0; i < kAhead; ++i) ahead[i] = load_weights(t, warp, i);
  for (std::uint32_t first = 0; first < columns; first += kAhead) {
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const std::uint32_t block = (first + i) * kQuarters + warp.quarter;
      if (block < t.blocks) multiply<kTiles>(sum, ahead[i], inputs, block * kBlockInputs + warp.lane % 4 * 8);
      ahead[i] = load_weights(t, warp, first + i + kAhead);
    }
  }
}

// Of 8 rows; rows are padded so that the writes of a warp meet no bank twice.
struct PartialSums {
  float at[kQuarters][kRowTile][kOutputs + 4];
  __device__ float total(unsigned row, unsigned output) const {
    return (at[0][row][output] + at[1][row][output]) + (at[2][row][output] + at[3][row][output]);
  }
};

template <unsigned kTiles>
__device__ inline void write_sums(PartialSums& to, const Sums<kTiles>& sum, unsigned n, const Warp& warp) {
#pragma unroll
  for (unsigned tile = 0; tile < 2; ++tile) {
    const unsigned output = warp.unit * kUnitOutputs + tile * 16 + warp.lane / 4;
    const unsigned row = warp.lane % 4 * 2;
    const float(&c)[4] = sum[tile][n];
    to.at[warp.quarter][row][output] = c[0];
    to.at[warp.quarter][row + 1][output] = c[1];
    to.at[warp.quarter][row][output + 8] = c[2];
    to.at[warp.quarter][row + 1][output + 8] = c[3];
  }
}

}  // namespace lynx::cuda::portable_experts
