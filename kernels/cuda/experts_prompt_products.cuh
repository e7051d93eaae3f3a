// The warpgroups of experts_prompt_hopper.cu that multiply: 128 outputs each by the rows of a tile.
#pragma once

#include "kernels/cuda/experts_prompt_ring.cuh"
#include "kernels/cuda/experts_prompt_rows.h"
#include "kernels/cuda/silu.cuh"
#include "kernels/cuda/vec.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace lynx::cuda::hopper_prompt {

// A warp has one unit of 32 outputs: two products of the warpgroup, of 16 of each warp's outputs.
using Sums = WarpgroupSums[2];
static_assert(kMostRows == kMostRowGroups * 8);

struct Warp {
  unsigned lane = threadIdx.x % kWarp;
  unsigned unit = warp_index() - kWarpgroup / kWarp;
};

// A group of products is 32 inputs. While one runs the next one's weights come into registers, and the stage
// before is free as soon as the first group of this one is the only one left.
template <unsigned kRows>
__device__ __forceinline__ void multiply_block(Sums& sum, const uint4 (&w)[2][2], std::uint64_t rows) {
  before_products();
#pragma unroll
  for (unsigned half = 0; half < 2; ++half)
#pragma unroll
    for (unsigned m = 0; m < 2; ++m)
      multiply_async(Rows<kRows>{}, sum[m], w[half][m], rows + half * kDescriptorOf16Inputs);
  end_of_products();
}
__device__ __forceinline__ void multiply(Sums& sum, Shared& s, StageCursor& cursor, const Warp& warp,
                                         std::uint32_t steps, std::uint32_t groups) {
  unsigned before = 0;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Stage& stage = s.stages[cursor.at];
    wait(s.full[cursor.at], cursor.parity);
    written_rows_fence();
    const std::uint64_t rows = swizzled_rows(stage.rows);
#pragma unroll
    for (unsigned block = 0; block < 2; ++block) {
      uint4 w[2][2];
#pragma unroll
      for (unsigned half = 0; half < 2; ++half)
#pragma unroll
        for (unsigned m = 0; m < 2; ++m)
          w[half][m] = load_shared(&stage.weights[warp.unit][block * 128 + m * 64 + half * 32 + warp.lane]);
      const std::uint64_t r = rows + block * 2 * kDescriptorOf16Inputs;
      switch (groups) {
        case 1:
          multiply_block<16>(sum, w, r);
          break;
        case 2:
          multiply_block<32>(sum, w, r);
          break;
        case 3:
          multiply_block<48>(sum, w, r);
          break;
        case 4:
          multiply_block<64>(sum, w, r);
          break;
        case 5:
          multiply_block<80>(sum, w, r);
          break;
        case 6:
          multiply_block<96>(sum, w, r);
          break;
        case 7:
          multiply_block<112>(sum, w, r);
          break;
        case 8:
          multiply_block<128>(sum, w, r);
          break;
        case 9:
          multiply_block<144>(sum, w, r);
          break;
        default:
          multiply_block<160>(sum, w, r);
      }
      wait_for_products<1>();
      if (block == 0 && step > 0 && warp.lane == 0) arrive(s.empty[before]);
    }
    before = cursor.at;
    cursor.advance();
  }
  wait_for_products<0>();
  if (warp.lane == 0) arrive(s.empty[before]);
}

// The first 16 of a unit's outputs are gates, the others the same features' ups: one lane has both. In the
// order of the fragments two lanes have 8 neighbouring bytes of two rows; each writes those of one.
__device__ __forceinline__ void write_activations(const Job& job, const Tile& tile, const Sums& sum,
                                                  const Warp& warp) {
  const unsigned feature = warp.lane / 4;  // and that + 8
  const bool odd = feature % 2 != 0;
  const std::uint32_t unit = tile.unit + warp.unit;
  std::uint16_t* to = job.activations + unit / 2 * kBlockInputs + feature / 2 * 8 + unit % 2 * 4;
#pragma unroll
  for (unsigned n = 0; n < kMostRowGroups; ++n) {
    if (n * 8 >= tile.rows) break;
    std::uint32_t rows[2];
#pragma unroll
    for (unsigned r = 0; r < 2; ++r)
      rows[r] = pack_bf16(silu(sum[0][n][r]) * sum[1][n][r], silu(sum[0][n][2 + r]) * sum[1][n][2 + r]);
    const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, odd ? rows[0] : rows[1], 4);
    const std::uint32_t mine = odd ? rows[1] : rows[0];
    const std::uint32_t even_feature = odd ? theirs : mine;
    const std::uint32_t odd_feature = odd ? mine : theirs;
    const unsigned row = n * 8 + warp.lane % 4 * 2 + odd;
    if (row < tile.rows && warp.unit < tile.units)
      *reinterpret_cast<uint2*>(to + std::size_t{tile.first_pair + row} * job.activation_stride) = {
          __byte_perm(even_feature, odd_feature, 0x5410), __byte_perm(even_feature, odd_feature, 0x7632)};
  }
}

// Asks for what write_weighted needs.
__device__ inline void ask_for_slots(const Job& job, const Tile& tile, Slots& slots) {
  const DevicePlan& plan = job.args.plan;
#pragma unroll 1
  for (unsigned row = threadIdx.x % kWarpgroup; row < tile.rows; row += kWarpgroup) {
    copy_4(&slots.row[row], plan.row_of + tile.first_pair + row);
    copy_4(&slots.slot[row], plan.slot_of + tile.first_pair + row);
    copy_4(&slots.weight[row], plan.pair_weight + tile.first_pair + row);
  }
}

__device__ __forceinline__ void write_weighted(const Job& job, const Tile& tile, const Sums& sum,
                                               const Warp& warp, const Slots& slots) {
  wait_for_all_copies();
  sync_threads(1 + warp.unit / 4, kWarpgroup);
  if (warp.unit >= tile.units) return;
  Part* to =
      reinterpret_cast<Part*>(job.partial) + (tile.unit + warp.unit) * kUnitOutputs + warp.lane / 4 * 4;
#pragma unroll
  for (unsigned n = 0; n < kMostRowGroups; ++n) {
    if (n * 8 >= tile.rows) break;
#pragma unroll
    for (unsigned odd = 0; odd < 2; ++odd) {
      const unsigned row = n * 8 + warp.lane % 4 * 2 + odd;
      if (row >= tile.rows) continue;
      const std::size_t slot = std::size_t{slots.row[row]} * job.args.plan.top_k + slots.slot[row];
      const float weight = slots.weight[row];
      *reinterpret_cast<uint2*>(to + slot * job.args.shape.hidden) = {
          pack_bf16(weight * sum[0][n][odd], weight * sum[0][n][2 + odd]),
          pack_bf16(weight * sum[1][n][odd], weight * sum[1][n][2 + odd])};
    }
  }
}

template <bool kDown>
__device__ inline void multiply_tiles(const Job& job, Shared& s) {
  const std::uint32_t steps = ceil_div(job.matrix.inputs, kStepInputs);
  const Warp warp;
  StageCursor cursor;
  Claims claims;
  for (Tile tile = claims.next(s); tile.rows > 0; tile = claims.next(s)) {
    if constexpr (kDown) ask_for_slots(job, tile, s.slots[warp.unit / 4][claims.turn % 2]);
    Sums sum = {};
    multiply(sum, s, cursor, warp, steps, ceil_div(tile.rows, kRowGroup));
    sums_are_there(sum[0]);
    sums_are_there(sum[1]);
    if constexpr (kDown)
      write_weighted(job, tile, sum, warp, s.slots[warp.unit / 4][claims.turn % 2]);
    else
      write_activations(job, tile, sum, warp);
  }
}

}  // namespace lynx::cuda::hopper_prompt
