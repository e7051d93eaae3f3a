// Weights that a later kernel of the step will read, for an earlier one to bring into L2 while memory would
// idle: when it has asked for all that it needs itself, and is still computing, merging or leaving.
#pragma once

#include <cstddef>

namespace lynx::cuda {

struct NextWeights {
  const std::byte* data = nullptr;  // 16-byte aligned; null: nothing
  std::size_t bytes = 0;            // a multiple of 16
};

#ifdef __CUDACC__
// On Hopper; nothing elsewhere. One warp of each of `blocks` blocks: block `block` asks for its share.
__device__ inline void prefetch_share(const NextWeights& next, unsigned block, unsigned blocks) {
#if __CUDA_ARCH__ >= 900
  constexpr std::size_t kPiece = 4096;
  constexpr unsigned kLanes = 32;
  if (next.data == nullptr) return;
  for (std::size_t at = (std::size_t{block} * kLanes + threadIdx.x % kLanes) * kPiece; at < next.bytes;
       at += std::size_t{blocks} * kLanes * kPiece) {
    const auto bytes = static_cast<unsigned>(next.bytes - at < kPiece ? next.bytes - at : kPiece);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(next.data + at)),
                 "r"(bytes)
                 : "memory");
  }
#endif
}
#endif

}  // namespace lynx::cuda
