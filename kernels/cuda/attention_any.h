// Attention of one row at a time for pools that the tensor-core kernels do not take: f32, or a D other than
// 64 and 128 (a multiple of 32, up to 256). Correct and row-invariant for decode and prefill alike; not fast.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/paged_kv.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

void attention_any(TensorView out, TensorView q, const KvLayer& kv, const StagedRows& rows,
                   cudaStream_t stream);  // [T, Hq * D] bf16 or f32, f32

}  // namespace lynx::cuda
