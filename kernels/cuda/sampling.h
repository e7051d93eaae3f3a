// Chooses the next token of each row from its logits: what services/engine/sampler.h does for requests
// without penalties, biases and log-probabilities of other tokens, with the same order of operations: greedy,
// or temperature, min-p, top-k, top-p and one draw; equal scores: the smaller token id.
// Probability masses are sums of integers (fixed point, 2^-40), so their order does not matter.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace lynx::cuda {

struct SamplingRow {
  double uniform = 0;     // in [0, 1)
  float temperature = 0;  // below 1e-5: greedy
  float top_p = 1;
  float min_p = 0;
  std::uint32_t top_k = 0;      // 0: off
  std::uint32_t on_device = 1;  // 0: nothing to do for this row; its sample stays as it is
  std::uint32_t reserved = 0;
};

struct SampledRow {
  std::uint32_t token = 0;
  float logprob = 0;           // of the raw distribution
  std::uint32_t unusable = 0;  // 1: the logits held NaN or +inf, or nothing else than -inf; no token
};

struct SampleArgs {
  TensorView logits;                         // [R, V] f32; V up to 1 << 20
  const SamplingRow* rows = nullptr;         // [R] device
  SampledRow* out = nullptr;                 // [R] device
  const std::uint32_t* live_rows = nullptr;  // of R; see rows.h
  std::byte* workspace = nullptr;            // sample_workspace(R) bytes of device memory
};
std::size_t sample_workspace(std::uint32_t max_rows);
void sample(const SampleArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
