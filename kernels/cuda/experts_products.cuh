// The tensor-core products of one task: 16-output tiles of weights as the tall side, rows in groups of 8 as
// the wide side, so that few rows waste little. Eight warps: warp w takes the inputs whose block of 32 is w
// mod 4, of the tiles that belong to half w / 4. That split is the same for every size of task, and so are
// the bits of a row.
#pragma once

#include "kernels/cuda/experts_pipeline.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kConsumers = kConsumerWarps * kWarp;
inline constexpr std::uint32_t kQuarters = 4;  // ways in which the sum over inputs is split
inline constexpr std::uint32_t kRowTile = 8;

// Each warp multiplies kTiles tiles of 16 outputs by kRowTiles groups of 8 rows; a task has 2 * kTiles tiles.
template <int kTiles, int kRowTiles>
struct Products {
  float sum[kTiles][kRowTiles][4];
};

__device__ inline uint4 load_shared(const std::byte* p) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(shared_address(p)));
  return v;
}

// Bytes from the start of a stage's weights to tile `tile` of this warp's half, for its quarter of the
// inputs.
template <int kTiles>
__device__ inline std::uint32_t tile_offset(std::uint32_t half, std::uint32_t tile) {
  constexpr std::uint32_t kTileBytes = 1024;  // of one block of 32 inputs
  if (kTiles == 1) return half * kTileBytes;
  const std::uint32_t unit = kTiles == 2 ? half : 2 * half + tile / 2;
  return unit * kUnitBytes + tile % 2 * kTileBytes;
}

// One block of 32 inputs.
template <int kTiles, int kRowTiles>
__device__ inline void multiply_block(Products<kTiles, kRowTiles>& p, const std::byte* weights,
                                      const std::byte* inputs, std::uint32_t half, std::uint32_t row_stride) {
  uint4 b[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) b[n] = load_shared(inputs + n * kRowTile * row_stride);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const std::byte* tile = weights + tile_offset<kTiles>(half, m);
    const uint4 low = load_shared(tile);
    const uint4 high = load_shared(tile + 512);
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
      mma_16816(p.sum[m][n], low.x, low.y, low.z, low.w, b[n].x, b[n].y);
      mma_16816(p.sum[m][n], high.x, high.y, high.z, high.w, b[n].z, b[n].w);
    }
  }
}

// The whole task, stage by stage. One warp.
template <int kTiles, int kRowTiles>
__device__ inline void multiply(Products<kTiles, kRowTiles>& p, StageRing& ring, StageCursor& at,
                                std::uint32_t all_inputs, Stopwatch& waiting) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t quarter = threadIdx.x / kWarp % kQuarters;
  const std::uint32_t half = threadIdx.x / kWarp / kQuarters;
  constexpr std::uint32_t kUnitCols = kTiles == 1 ? 4 : kTiles == 2 ? 2 : 1;
  constexpr std::uint32_t kRowStride = kUnitCols * kUnitInputs * 2 + kRowPad;
  constexpr std::uint32_t kBlocks = kUnitInputs / kBlockInputs;  // of a unit: one a quarter
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) p.sum[m][n][i] = 0;

  for (std::uint32_t first = 0; first < all_inputs; first += kUnitCols * kUnitInputs, at.advance()) {
    const std::uint32_t blocks = (all_inputs - first) / kBlockInputs;  // left, this stage's among them
    waiting.start();
    wait(ring.full[at.at], at.parity);
    waiting.stop();
    const std::byte* weights = ring.stages[at.at].weights + quarter * 2048 + lane * 16;
    const std::byte* inputs =
        ring.stages[at.at].inputs + lane / 4 * kRowStride + lane % 4 * 16 + quarter * kBlockInputs * 2;
#pragma unroll
    for (std::uint32_t col = 0; col < kUnitCols; ++col) {
      if (col * kBlocks + quarter < blocks)
        multiply_block(p, weights + col * kTiles * kUnitBytes, inputs + col * kUnitInputs * 2, half,
                       kRowStride);
    }
    __syncwarp();
    if (lane == 0) arrive(ring.empty[at.at]);
  }
}

// One pass of the sum over the quarters: 8 rows by up to 64 outputs, of which half h gives 32 (or 16, if a
// task has only one unit). Rows are padded so that the writes of a warp meet no bank twice.
inline constexpr std::uint32_t kPassOutputs = 64;
struct PartialSums {
  float at[kQuarters][kRowTile][kPassOutputs + 4];

  __device__ float total(std::uint32_t row, std::uint32_t output) const {
    return (at[0][row][output] + at[1][row][output]) + (at[2][row][output] + at[3][row][output]);
  }
};

// Tiles 2 * pass and 2 * pass + 1 of this warp.
template <int kTiles, int kRowTiles>
__device__ inline void write_partial(PartialSums& sums, const Products<kTiles, kRowTiles>& p, int pass,
                                     int n) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t quarter = threadIdx.x / kWarp % kQuarters;
  const std::uint32_t half = threadIdx.x / kWarp / kQuarters;
  constexpr int kTilesOfPass = kTiles == 1 ? 1 : 2;
#pragma unroll
  for (int tile = 0; tile < kTilesOfPass; ++tile) {
    const std::uint32_t output = (half * kTilesOfPass + tile) * 16 + lane / 4;
    const std::uint32_t row = lane % 4 * 2;
    const float(&c)[4] = p.sum[pass * kTilesOfPass + tile][n];
    sums.at[quarter][row][output] = c[0];
    sums.at[quarter][row + 1][output] = c[1];
    sums.at[quarter][row][output + 8] = c[2];
    sums.at[quarter][row + 1][output + 8] = c[3];
  }
}

}  // namespace lynx::cuda
