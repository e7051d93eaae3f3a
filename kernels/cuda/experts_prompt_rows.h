// Before and after the two products of experts_prompt_hopper.cu: rows in the order of the fragments, and the
// sum of a row's slots. A launch each.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/experts.h"

namespace lynx::cuda::hopper_prompt {

// A pair's weighted outputs, [B, k, H] bf16: as f32 they were the most of what these kernels move, and to
// round them adds to an output what rounding the activations adds. Of 32 outputs 8 m + g stands at 4 g + m: a
// lane of the products has the four of one g.
using Part = __nv_bfloat16;

// The inputs of each block of 32, in which 8 q + 2 i + b comes to stand at 8 i + 2 q + b: packed weights
// (experts_layout.h) give lane q of an instruction 8 q .. 8 q + 7, and wgmma gives it two from each 16 bytes
// of a row. to: [B, H] bf16. The next launch may take the plan for granted before this one has ended.
void order_rows(const ExpertsArgs& args, std::uint16_t* to, cudaStream_t stream);

// args.out += parts, in the order of a row's slots. Padding rows stay as they are. counters: of the tiles of
// both products, [2], left at zero.
void add_ordered_slots(const ExpertsArgs& args, const Part* parts, std::uint32_t* counters,
                       cudaStream_t stream);

}  // namespace lynx::cuda::hopper_prompt
