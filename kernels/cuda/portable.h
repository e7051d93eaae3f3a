// The kernels of KernelSet::kPortable, those for prompts among them. Arguments, promises and
// results: route.h, experts.h, attention.h, gemm.h.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/route.h"

namespace lynx::cuda {

void route_portable(const RouteArgs& args, cudaStream_t stream);          // one launch of one block
void experts_add_portable(const ExpertsArgs& args, cudaStream_t stream);  // three launches
// out += partial [B, k, parts, H], in the order of a row's slots.
void add_slots_portable(const ExpertsArgs& args, const float* partial, std::uint32_t parts,
                        cudaStream_t stream);
// With rope_store before it: two launches.
void decode_attention_portable(const DecodeAttentionArgs& args, cudaStream_t stream);
std::uint32_t decode_portable_context_limit();
std::size_t decode_attention_portable_workspace(std::uint32_t max_rows, std::uint32_t q_heads,
                                                std::uint32_t kv_heads, std::uint32_t head_dim,
                                                std::uint32_t max_context);
void skinny_gemm_portable(const GemmArgs& args, cudaStream_t stream);  // one launch

// For ExpertsArgs::prompt, where the device has the shared memory for it (not 8.6 and 8.9); three launches.
// Hopper has its own: experts_prompt_hopper.h.
bool has_prompt_kernels();
void experts_add_prompt(const ExpertsArgs& args, cudaStream_t stream);

// Whether this build has code for the current device.
bool has_portable_code();

}  // namespace lynx::cuda
