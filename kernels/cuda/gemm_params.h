// What a kernel of skinny_gemm.cu or gemm_portable.cu gets.
#pragma once

#include "kernels/cuda/gemm.h"

namespace lynx::cuda {

struct GemmParams {
  std::byte* out;
  std::size_t out_stride;
  const std::uint16_t* x;
  std::size_t x_stride;
  const std::uint16_t* weights;
  unsigned rows, n, k;
  unsigned part_k;  // of one block of a cluster, or of one warp
  bool add;
  const std::uint32_t* live_rows;
};

inline GemmParams gemm_params(const GemmArgs& a, unsigned part_k) {
  return {.out = a.out.data,
          .out_stride = a.out.stride,
          .x = reinterpret_cast<const std::uint16_t*>(a.x.data),
          .x_stride = a.x.stride,
          .weights = a.weights,
          .rows = a.x.rows,
          .n = a.out.cols,
          .k = a.x.cols,
          .part_k = part_k,
          .add = a.add,
          .live_rows = a.live_rows};
}

}  // namespace lynx::cuda
