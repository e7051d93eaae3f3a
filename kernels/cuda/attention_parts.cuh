// What the attention kernels share: where a token's keys and values lie, and merging of softmaxes.
#pragma once

#include <cstdint>

#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;

// Bytes from the layer's base to the token's K.
__device__ inline std::size_t token_offset(const KvLayer& kv, const BlockId* table, std::uint32_t position) {
  return table[position / kv.block_tokens] * kv.block_bytes +
         std::size_t{position % kv.block_tokens} * kv.token_bytes;
}

__device__ inline std::uint32_t sequence_of(const StagedRows& rows, std::uint32_t row) {
  return rows.sequence == nullptr ? row : rows.sequence[row];
}
__device__ inline const BlockId* table_of_sequence(const StagedRows& rows, std::uint32_t sequence) {
  return rows.tables + std::size_t{sequence} * rows.table_stride;
}
__device__ inline const BlockId* table_of(const StagedRows& rows, std::uint32_t row) {
  return table_of_sequence(rows, sequence_of(rows, row));
}

// Largest score so far (times log2 e) and the sum of 2^(score - max).
struct Softmax {
  float max, sum;
};

// 2^x, zero where that is not a normal number.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The factor that brings a sum with maximum `part` to the maximum `all`; 0 for a part without keys.
__device__ inline float rescale(float part, float all) { return power_of_two(part - all); }

}  // namespace lynx::cuda
