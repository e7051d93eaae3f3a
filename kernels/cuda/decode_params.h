// From the arguments of decode attention to what its kernels get.
#pragma once

#include "kernels/cuda/attention.h"

namespace lynx::cuda::decode {

struct Params;

// Whether the Hopper kernels take it: a bf16 pool, D of 64 or 128.
bool takes(const KvLayer& kv);
// Throws std::runtime_error for more than kMaxDecodeRows rows or 131,072 tokens.
Params make_params(const DecodeAttentionArgs& args);

}  // namespace lynx::cuda::decode
