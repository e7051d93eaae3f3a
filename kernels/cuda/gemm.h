// Matrix products with bf16 weights as the checkpoint lays them out, [n, k] by rows, and f32 accumulation.
//
// Decode (up to 64 rows): a kernel that reads the weights once at memory speed. The order of every sum
// depends on k alone, so a row's bits depend neither on the number of rows nor on the device. Prefill:
// cuBLASLt, with one algorithm per (n, k, types) for every number of rows, without split-K.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/kernel_set.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

inline constexpr std::uint32_t kSkinnyRows = 64;

struct GemmArgs {
  TensorView out;                            // [T, n] f32 or bf16
  TensorView x;                              // [T, k] bf16
  const std::uint16_t* weights = nullptr;    // [n, k] bf16, aligned to 16 bytes
  bool add = false;                          // out += (f32 only); otherwise out =
  const std::uint32_t* live_rows = nullptr;  // see rows.h; skinny_gemm alone heeds it
  KernelSet kernels = KernelSet::kHopper;    // of skinny_gemm
};

// k a multiple of 8, up to 4096.
bool skinny_gemm_takes(std::uint32_t n, std::uint32_t k);
void skinny_gemm(const GemmArgs& args, cudaStream_t stream);  // T up to kSkinnyRows

// One per device and stream: the workspace serves one product at a time. Throws std::runtime_error.
class WideGemm {
 public:
  WideGemm();
  ~WideGemm();
  WideGemm(const WideGemm&) = delete;
  WideGemm& operator=(const WideGemm&) = delete;

  // Chooses the algorithm on first use of a shape. n and k are multiples of 8.
  void run(const GemmArgs& args, cudaStream_t stream);
  static std::size_t workspace_bytes();  // that the constructor takes from the device

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lynx::cuda
