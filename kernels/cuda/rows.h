// Operations on rows of hidden states. All sizes are multiples of 8 elements; rows are aligned to 16 bytes.
//
// Padding, here and in every other header of this folder: `live_rows` points to one number in device memory;
// rows at or past it are neither read nor written. Null: every row is live. The launch shape depends on the
// views' rows alone, so one captured graph serves every number of live rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/tensor.h"

namespace lynx::cuda {

struct EmbedArgs {
  TensorView out;                         // [T, H] f32
  TensorView table;                       // [V, H] bf16
  const std::uint32_t* tokens = nullptr;  // [T] device
  const std::uint32_t* live_rows = nullptr;
};
void embed(const EmbedArgs& args, cudaStream_t stream);

struct GatherRowsArgs {
  TensorView out;                            // [R, H] f32
  TensorView x;                              // [T, H] f32
  const std::uint32_t* rows = nullptr;       // [R] device
  const std::uint32_t* live_rows = nullptr;  // of R
};
void gather_rows(const GatherRowsArgs& args, cudaStream_t stream);

struct RmsNormArgs {
  TensorView out;     // [T, H] bf16 or f32
  TensorView x;       // [T, H] f32; out may be x (both f32)
  TensorView weight;  // [1, H] f32
  float eps = 0;
  const std::uint32_t* live_rows = nullptr;
};
void rms_norm(const RmsNormArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
