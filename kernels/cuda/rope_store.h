// RMS norm of each query and key head, rotary embedding, and the write of keys and values into the pool: one
// launch. D is even, up to 256.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/paged_kv.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

struct RopeStoreArgs {
  TensorView q;         // [T, Hq * D] f32, in place
  TensorView k;         // [T, Hkv * D] f32, unchanged: its result goes into the pool alone
  TensorView v;         // [T, Hkv * D] f32
  TensorView q_weight;  // [1, D] f32; no data: heads are not normed
  TensorView k_weight;  // [1, D] f32; no data: heads are not normed
  float eps = 0;
  TensorView rope;  // [context, D] f32: D/2 cosines of the position, then D/2 sines
  KvLayer kv;
  StagedRows rows;
};
void rope_store(const RopeStoreArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
