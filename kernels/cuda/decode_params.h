// From the arguments of decode attention to what its kernels get.
#pragma once

#include "kernels/cuda/attention.h"

namespace lynx::cuda::decode {

struct Params;

// Whether the Hopper kernels take it: a bf16 pool, D of 64 or 128.
bool takes(KvDtype dtype, std::uint32_t head_dim);
// Throws std::runtime_error for more than kMaxDecodeRows rows or more than 2^20 tokens.
Params make_params(const DecodeAttentionArgs& args);

}  // namespace lynx::cuda::decode
