// normed = norm(x), out = normed w^T in one launch, for decode rows and a matrix as small as a router, whose
// time is that of two launches rather than of any bytes. To the bit the same as rms_norm and skinny_gemm one
// after the other (norm_gemm_apart).
#pragma once

#include "kernels/cuda/gemm.h"

namespace lynx::cuda {

struct NormGemmArgs {
  // Rows of x, normed and norm_weight are aligned to 16 bytes.
  TensorView out;          // [T, n] f32
  TensorView normed;       // [T, k] bf16
  TensorView x;            // [T, k] f32
  TensorView norm_weight;  // [1, k] f32
  float eps = 0;
  const std::uint16_t* weights = nullptr;    // [n, k] bf16, aligned to 16 bytes
  const std::uint32_t* live_rows = nullptr;  // see rows.h; read before the kernels before it have ended
  KernelSet kernels = KernelSet::kHopper;
};

void norm_gemm(const NormGemmArgs& args, cudaStream_t stream);        // T up to kSkinnyRows
void norm_gemm_apart(const NormGemmArgs& args, cudaStream_t stream);  // by two launches
// Whether norm_gemm does it in one launch: on a Hopper, n up to 512, k a multiple of 256 up to 2,048 or of
// 512 up to 4,096.
bool norm_gemm_takes(const NormGemmArgs& args);

}  // namespace lynx::cuda
