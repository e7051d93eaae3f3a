// One tile of experts_prompt.cu: 256 outputs of an expert by up to 160 rows, over all inputs.
#pragma once

#include "kernels/cuda/experts_job.h"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::prompt {

inline constexpr unsigned kOutputWarps = 4;  // two units of 32 outputs each
inline constexpr unsigned kRowWarps = 2;
inline constexpr unsigned kThreads = kOutputWarps * kRowWarps * kWarp;
inline constexpr unsigned kUnits = 2 * kOutputWarps;
inline constexpr unsigned kRowGroup = 8;
inline constexpr unsigned kMostGroups = 10;  // of a warp
inline constexpr unsigned kMostRows = kRowWarps * kMostGroups * kRowGroup;
inline constexpr unsigned kStepInputs = 64;  // two blocks of 32
inline constexpr unsigned kStages = 3;
inline constexpr unsigned kPiecesOfUnit = 256;  // of 16 bytes, in a step
inline constexpr unsigned kPiecesOfRow = 8;
static_assert(kPiecesOfUnit == kThreads, "a piece of each unit a thread");

using Job = MatrixJob;  // partial: [B, k, H]

struct Stage {
  uint4 weights[kUnits][kPiecesOfUnit];
  uint4 rows[kMostRows][kPiecesOfRow];  // see piece_at
};
struct Shared {
  Stage stages[kStages];
  const std::uint16_t* inputs[kMostRows];       // of each row of the tile, or null
  std::uint32_t first[kMaxExpertsOfLayer + 1];  // tiles of rows before each active expert
  std::uint32_t experts;
};
static_assert(sizeof(Shared) <= 163 * 1024, "a block's shared memory with compute capability 8.0");

struct Tile {
  const std::byte* weights;  // its first unit of outputs
  std::uint32_t unit, units;
  std::uint32_t first_pair, rows;
};

// Where a row's piece of 8 inputs lies: two neighbouring rows then share no bank for the same 32 inputs.
__device__ inline unsigned piece_at(unsigned row, unsigned piece) { return piece ^ (row % 2 * 4); }

template <unsigned kGroups>
__device__ inline void load_step(const Job& job, const Shared& s, Stage& stage, const Tile& tile,
                                 std::uint32_t step) {
  const std::byte* weights = tile.weights + step % 2 * (kUnitBytes / 2) + threadIdx.x * sizeof(uint4);
  static_assert(kUnits % kGroupUnits == 0);
#pragma unroll
  for (unsigned u = 0; u < kUnits; ++u) {
    const bool inside = u < tile.units;
    const std::size_t offset =
        std::size_t{u / kGroupUnits * kGroupUnits} * job.matrix.unit_cols * kUnitBytes +
        std::size_t{step / 2} * column_bytes(job.matrix, tile.unit + u) + u % kGroupUnits * kUnitBytes;
    copy_16_or_zeros(&stage.weights[u][threadIdx.x], inside ? weights + offset : weights, inside);
  }
  constexpr unsigned kPieces = kRowWarps * kGroups * kRowGroup * kPiecesOfRow;
  static_assert(kPieces % kThreads == 0);
#pragma unroll
  for (unsigned i = 0; i < kPieces / kThreads; ++i) {
    const unsigned row = (threadIdx.x + i * kThreads) / kPiecesOfRow;
    const unsigned piece = threadIdx.x % kPiecesOfRow;
    const std::uint32_t k = step * kStepInputs + piece * 8;
    const std::uint16_t* from = s.inputs[row];
    const bool inside = from != nullptr && k < job.matrix.inputs;
    copy_16_or_zeros(&stage.rows[row][piece_at(row, piece)], inside ? from + k : job.args.x, inside);
  }
}

// Of a warp: [tile of 16 outputs][group of 8 rows].
template <unsigned kGroups>
using Sums = float[4][kGroups][4];

struct Warp {
  unsigned lane = threadIdx.x % kWarp;
  unsigned outputs = warp_index() % kOutputWarps;
  unsigned rows = warp_index() / kOutputWarps;
};

template <unsigned kGroups>
__device__ inline void multiply_step(Sums<kGroups>& sum, const Stage& stage, const Warp& warp) {
#pragma unroll
  for (unsigned block = 0; block < 2; ++block) {
    uint4 w[4][2];
#pragma unroll
    for (unsigned m = 0; m < 4; ++m)
#pragma unroll
      for (unsigned half = 0; half < 2; ++half)
        w[m][half] =
            stage.weights[2 * warp.outputs + m / 2][block * 128 + m % 2 * 64 + half * 32 + warp.lane];
#pragma unroll
    for (unsigned n = 0; n < kGroups; ++n) {
      const unsigned row = (warp.rows * kGroups + n) * kRowGroup + warp.lane / 4;
      const uint4 r = stage.rows[row][piece_at(warp.lane / 4, block * 4 + warp.lane % 4)];
#pragma unroll
      for (unsigned m = 0; m < 4; ++m)
        mma_16816(sum[m][n], w[m][0].x, w[m][0].y, w[m][0].z, w[m][0].w, r.x, r.y);
#pragma unroll
      for (unsigned m = 0; m < 4; ++m)
        mma_16816(sum[m][n], w[m][1].x, w[m][1].y, w[m][1].z, w[m][1].w, r.z, r.w);
    }
  }
}

// The first 16 of a unit's outputs are gates, the others the same features' ups: one lane has both.
template <unsigned kGroups>
__device__ inline void write_activations(const Job& job, const Tile& tile, const Sums<kGroups>& sum,
                                         const Warp& warp) {
  auto* activations = reinterpret_cast<__nv_bfloat16*>(job.activations);
#pragma unroll
  for (unsigned n = 0; n < kGroups; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = (warp.rows * kGroups + n) * kRowGroup + warp.lane % 4 * 2 + i % 2;
      if (row >= tile.rows) continue;
      __nv_bfloat16* to = activations + std::size_t{tile.first_pair + row} * job.activation_stride;
#pragma unroll
      for (unsigned u = 0; u < 2; ++u) {
        const unsigned unit = 2 * warp.outputs + u;
        if (unit < tile.units)
          to[(tile.unit + unit) * 16 + warp.lane / 4 + i / 2 * 8] =
              __float2bfloat16_rn(silu(sum[2 * u][n][i]) * sum[2 * u + 1][n][i]);
      }
    }
  }
}

template <unsigned kGroups>
__device__ inline void write_weighted(const Job& job, const Tile& tile, const Sums<kGroups>& sum,
                                      const Warp& warp) {
  const DevicePlan& plan = job.args.plan;
#pragma unroll
  for (unsigned n = 0; n < kGroups; ++n) {
#pragma unroll
    for (unsigned odd = 0; odd < 2; ++odd) {
      const unsigned row = (warp.rows * kGroups + n) * kRowGroup + warp.lane % 4 * 2 + odd;
      if (row >= tile.rows) continue;
      const std::uint32_t pair = tile.first_pair + row;
      const std::size_t slot = std::size_t{plan.row_of[pair]} * plan.top_k + plan.slot_of[pair];
      const float weight = plan.pair_weight[pair];
      float* to = job.partial + slot * job.args.shape.hidden;
#pragma unroll
      for (unsigned m = 0; m < 4; ++m) {
        const unsigned unit = 2 * warp.outputs + m / 2;
        if (unit >= tile.units) continue;
        float* outputs = to + (tile.unit + unit) * kUnitOutputs + m % 2 * 16 + warp.lane / 4;
        outputs[0] = weight * sum[m][n][odd];
        outputs[8] = weight * sum[m][n][2 + odd];
      }
    }
  }
}

template <bool kDown>
__device__ inline const std::uint16_t* inputs_of(const Job& job, std::uint32_t pair) {
  if (kDown) return job.activations + std::size_t{pair} * job.activation_stride;
  return job.args.x + job.args.plan.row_of[pair] * job.args.x_stride;
}

// All threads of the block; kGroups groups of 8 rows a warp.
template <bool kDown, unsigned kGroups>
__device__ inline void multiply_tile(const Job& job, Shared& s, const Tile& tile) {
  __syncthreads();  // the tile before has been read
  for (unsigned i = threadIdx.x; i < kRowWarps * kGroups * kRowGroup; i += kThreads)
    s.inputs[i] = i < tile.rows ? inputs_of<kDown>(job, tile.first_pair + i) : nullptr;
  __syncthreads();
  const std::uint32_t steps = ceil_div(job.matrix.inputs, kStepInputs);
  for (std::uint32_t step = 0; step < kStages - 1; ++step) {
    if (step < steps) load_step<kGroups>(job, s, s.stages[step], tile, step);
    end_of_copies();
  }
  const Warp warp;
  Sums<kGroups> sum = {};
  std::uint32_t at = 0;              // the stage of this step
  std::uint32_t free = kStages - 1;  // and that of the step before, which all warps have left
  for (std::uint32_t step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) load_step<kGroups>(job, s, s.stages[free], tile, step + kStages - 1);
    end_of_copies();
    multiply_step<kGroups>(sum, s.stages[at], warp);
    free = at;
    at = at + 1 == kStages ? 0 : at + 1;
  }
  if constexpr (kDown)
    write_weighted<kGroups>(job, tile, sum, warp);
  else
    write_activations<kGroups>(job, tile, sum, warp);
}

}  // namespace lynx::cuda::prompt
