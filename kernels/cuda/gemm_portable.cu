// Decode's matrix product without clusters. A block takes 16 outputs and its warps share out k, each
// streaming its part of the weights from memory straight into matrix fragments; the rows come from L1 and L2.
// The parts are added in rising k. They depend on k alone, and so does the order of every sum.
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kParts = 8;  // of k: one a warp
constexpr unsigned kThreads = kParts * kWarp;
constexpr unsigned kTile = 16;   // outputs
constexpr unsigned kSlice = 64;  // k of two 16-byte loads a lane
constexpr unsigned kAhead = 4;   // slices in flight of each warp

// Lane 4 g + q holds k = 8 q .. 8 q + 7 of 32, twice, of outputs g and g + 8.
struct Slice {
  uint4 low[2], high[2];
};

__device__ uint4 load_inside(const std::uint16_t* row, unsigned k, unsigned end) {
  return k < end ? load_weight(row + k) : uint4{};
}

__device__ Slice load_slice(const std::uint16_t* low, const std::uint16_t* high, unsigned k, unsigned end) {
  Slice s;
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) {
    s.low[i] = load_inside(low, k + 32 * i, end);
    s.high[i] = load_inside(high, k + 32 * i, end);
  }
  return s;
}

__device__ uint4 load_row(const GemmParams& p, unsigned row, unsigned live, unsigned k) {
  return row < live && k < p.k ? *reinterpret_cast<const uint4*>(p.x + row * p.x_stride + k) : uint4{};
}

// sum[t][h] += rows 16 t .. by outputs 8 h .. of the tile, over the slice at k (this lane's first).
template <unsigned kRowTiles>
__device__ void multiply(float (&sum)[kRowTiles][2][4], const Slice& w, const GemmParams& p, unsigned live,
                         unsigned k) {
  const unsigned g = threadIdx.x % kWarp / 4;
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const uint4 near = load_row(p, 16 * t + g, live, k + 32 * i);
      const uint4 far = load_row(p, 16 * t + g + 8, live, k + 32 * i);
      mma_16816(sum[t][0], near.x, far.x, near.y, far.y, w.low[i].x, w.low[i].y);
      mma_16816(sum[t][1], near.x, far.x, near.y, far.y, w.high[i].x, w.high[i].y);
      mma_16816(sum[t][0], near.z, far.z, near.w, far.w, w.low[i].z, w.low[i].w);
      mma_16816(sum[t][1], near.z, far.z, near.w, far.w, w.high[i].z, w.high[i].w);
    }
  }
}

// This warp's part of k.
template <unsigned kRowTiles>
__device__ void multiply_part(float (&sum)[kRowTiles][2][4], const GemmParams& p, unsigned live) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned output = blockIdx.x * kTile + lane / 4;  // past the last: repeats it, and the sum is dropped
  const std::uint16_t* low = p.weights + std::size_t{min(output, p.n - 1)} * p.k;
  const std::uint16_t* high = p.weights + std::size_t{min(output + 8, p.n - 1)} * p.k;
  const unsigned first = warp_index() * p.part_k;
  const unsigned end = min(first + p.part_k, p.k);
  const unsigned at = lane % 4 * 8;
  Slice ahead[kAhead];
#pragma unroll
  for (unsigned i = 0; i < kAhead; ++i) ahead[i] = load_slice(low, high, first + i * kSlice + at, end);
  for (unsigned k = first; k < end; k += kAhead * kSlice) {
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned slice = k + i * kSlice;
      if (slice < end) multiply<kRowTiles>(sum, ahead[i], p, live, slice + at);
      ahead[i] = load_slice(low, high, slice + kAhead * kSlice + at, end);
    }
  }
}

template <typename Out>
__device__ void store(const GemmParams& p, unsigned row, unsigned output, float value) {
  Out* to = reinterpret_cast<Out*>(p.out) + row * p.out_stride + output;
  if constexpr (sizeof(Out) == sizeof(float)) {
    if (p.add) value += *to;
  }
  store1(to, value);
}

template <unsigned kRowTiles, typename Out>
__global__ void __launch_bounds__(kThreads) gemm_kernel(const GemmParams p) {
  constexpr unsigned kRows = 16 * kRowTiles;
  __shared__ float2 parts[kParts][kRows][kTile / 2];
  grid_dependency_wait();
  const unsigned live = live_count(p.live_rows, p.rows);
  float sum[kRowTiles][2][4] = {};
  multiply_part<kRowTiles>(sum, p, live);

  const unsigned g = threadIdx.x % kWarp / 4;
  const unsigned q = threadIdx.x % 4;
  auto& mine = parts[threadIdx.x / kWarp];
#pragma unroll
  for (unsigned t = 0; t < kRowTiles; ++t) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      mine[16 * t + g][4 * h + q] = {sum[t][h][0], sum[t][h][1]};
      mine[16 * t + g + 8][4 * h + q] = {sum[t][h][2], sum[t][h][3]};
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < live * kTile; i += kThreads) {
    const unsigned row = i / kTile;
    const unsigned output = i % kTile;
    if (blockIdx.x * kTile + output >= p.n) continue;
    float all = 0;
#pragma unroll
    for (unsigned part = 0; part < kParts; ++part) {
      const float2 two = parts[part][row][output / 2];
      all += output % 2 == 0 ? two.x : two.y;
    }
    store<Out>(p, row, blockIdx.x * kTile + output, all);
  }
}

template <typename Out>
void launch_gemm(const GemmParams& p, cudaStream_t stream) {
  const Shape shape{.grid = dim3((p.n + kTile - 1) / kTile), .block = dim3(kThreads)};
  const auto kernel = p.rows <= 16   ? gemm_kernel<1, Out>
                      : p.rows <= 32 ? gemm_kernel<2, Out>
                                     : gemm_kernel<4, Out>;
  launch("skinny_gemm_portable", kernel, shape, stream, Overlap::kPrevious, p);
}

}  // namespace

void skinny_gemm_portable(const GemmArgs& a, cudaStream_t stream) {
  constexpr unsigned kWhole = kParts * kSlice;
  const GemmParams params = gemm_params(a, (a.x.cols + kWhole - 1) / kWhole * kSlice);
  switch (a.out.dtype) {
    case Dtype::kF32:
      return launch_gemm<float>(params, stream);
    case Dtype::kBf16:
      return launch_gemm<__nv_bfloat16>(params, stream);
  }
}

bool has_portable_code() {
  cudaFuncAttributes attributes;
  const bool has = cudaFuncGetAttributes(&attributes, gemm_kernel<1, float>) == cudaSuccess;
  if (!has) static_cast<void>(cudaGetLastError());
  return has;
}

}  // namespace lynx::cuda
