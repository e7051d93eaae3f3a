// The experts of one layer, by plan: each active expert's weights are read from memory once. bf16 weights and
// inputs, f32 sums. The bits of a row depend on that row's input, experts and weights alone: every output is
// summed over k in one fixed order, and a row adds its experts in slot order, whatever the batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/core/result.h"
#include "kernels/cuda/device_plan.h"
#include "kernels/cuda/kernel_set.h"
#include "kernels/cuda/long_wait.h"
#include "kernels/cuda/timeline.h"

namespace lynx::cuda {

struct ExpertShape {
  std::uint32_t experts = 0, hidden = 0, intermediate = 0;  // N, H, I
};

// At start-up: the error names the field that these kernels do not cover (H and I are multiples of 32).
Status check_experts(const ExpertShape& shape);

// Weights in the order in which the tensor cores take them: one block per expert.
std::size_t packed_expert_bytes(const ExpertShape& shape);  // of one expert; a multiple of 1024

// Packs one expert from row-major bf16 in device memory. packed: 128-byte aligned.
struct PackArgs {
  std::byte* packed = nullptr;
  const std::uint16_t* gate = nullptr;  // [I, H]
  const std::uint16_t* up = nullptr;    // [I, H]
  const std::uint16_t* down = nullptr;  // [H, I]
  ExpertShape shape;
};
void pack_expert(const PackArgs& args, cudaStream_t stream);

struct ExpertsArgs {
  float* out = nullptr;        // [B, H] f32: += the weighted sum of the row's experts; padding rows stay
  std::size_t out_stride = 0;  // elements
  const std::uint16_t* x = nullptr;   // [B, H] bf16, rows 16-byte aligned
  std::size_t x_stride = 0;           // elements, a multiple of 8
  const std::byte* packed = nullptr;  // [N] blocks of packed_expert_bytes, 128-byte aligned
  ExpertShape shape;
  DevicePlan plan;                 // plan.rows is B
  std::byte* workspace = nullptr;  // 256-byte aligned
  KernelSet kernels = KernelSet::kHopper;
  bool prompt = false;  // not a decode step: any number of rows, kernels for many rows an expert
  std::uint64_t* timeline = nullptr;  // [blocks, kExpertsMarks] on the device, or null
  LongWaitNote* long_wait = nullptr;  // in pinned host memory, or null
};

// Activations, partial outputs and counters. Zeroed once by its owner; every call leaves it fit for the next.
// One workspace serves all layers of one stream that have its shape and k, and any B up to max_rows.
std::size_t experts_workspace_bytes(const ExpertShape& shape, std::uint32_t top_k, std::uint32_t max_rows);
// Its first so many bytes are zero between calls. A call of several launches of which one was refused has
// left counts there: they have to be zeroed before the next call.
std::size_t experts_count_bytes(const ExpertShape& shape);

// One persistent launch for any B, for B = 1 mostly one of its own, experts_lone.cu (kPortable: three;
// prompt: four on Hopper, three elsewhere); B > 64 adds one for the weighted sum. The bits of a row are the
// same in all calls with the same `prompt`.
void experts_add(const ExpertsArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
