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

inline constexpr int kMostTiles = 4;
inline constexpr int kMostRowTiles = kRowBlock / kRowTile;

// Each warp multiplies kTiles tiles of 16 outputs by kRowTiles groups of 8 rows; a task has 2 * kTiles tiles.
// The sums of all sizes of task lie at the same places, so that one code writes them.
struct Products {
  float sum[kMostTiles][kMostRowTiles][4];
};

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
__device__ inline void multiply_block(Products& p, const std::byte* weights, const std::byte* inputs,
                                      std::uint32_t half, std::uint32_t row_stride) {
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
__device__ inline void multiply(Products& p, StageRing& ring, StageCursor& at, std::uint32_t all_inputs,
                                Stopwatch& waiting) {
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
        multiply_block<kTiles, kRowTiles>(p, weights + col * kTiles * kUnitBytes,
                                          inputs + col * kUnitInputs * 2, half, kRowStride);
    }
    arrive(ring.empty[at.at]);
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

// Of a pass over row group kRows: tiles 2 * kPass and 2 * kPass + 1 of this warp, or tile 0 alone.
template <int kPass, int kRows>
__device__ inline void write_tiles(float* to, const Products& p, bool one_tile) {
  constexpr std::uint32_t kRow = kPassOutputs + 4;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    if (tile == 1 && one_tile) return;
    const float(&c)[4] = p.sum[kPass * 2 + tile][kRows];
    to[tile * 16] = c[0];
    to[tile * 16 + kRow] = c[1];
    to[tile * 16 + 8] = c[2];
    to[tile * 16 + kRow + 8] = c[3];
  }
}
template <int kRows>
__device__ inline void write_rows(float* to, const Products& p, std::uint32_t pass, bool one_tile) {
  pass == 0 ? write_tiles<0, kRows>(to, p, one_tile) : write_tiles<1, kRows>(to, p, one_tile);
}

// Registers have no index: a way for each group of rows.
__device__ inline void write_partial(PartialSums& sums, const Products& p, std::uint32_t pass,
                                     std::uint32_t rows, bool one_tile) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t quarter = threadIdx.x / kWarp % kQuarters;
  const std::uint32_t half = threadIdx.x / kWarp / kQuarters;
  float* to = &sums.at[quarter][lane % 4 * 2][half * (one_tile ? 16 : 32) + lane / 4];
  static_assert(kMostRowTiles == 6);
  if (rows == 0) return write_rows<0>(to, p, pass, one_tile);  // most tasks have no others
  switch (rows) {
    case 1:
      return write_rows<1>(to, p, pass, one_tile);
    case 2:
      return write_rows<2>(to, p, pass, one_tile);
    case 3:
      return write_rows<3>(to, p, pass, one_tile);
    case 4:
      return write_rows<4>(to, p, pass, one_tile);
    default:
      return write_rows<5>(to, p, pass, one_tile);
  }
}

}  // namespace lynx::cuda
