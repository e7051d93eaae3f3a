#include "kernels/cuda/rows.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kVector = 8;  // elements of one access
constexpr unsigned kNormThreads = 256;
constexpr unsigned kNormWarps = kNormThreads / kWarp;

template <typename From>
__global__ void copy_rows(float* out, std::size_t out_stride, const From* x, std::size_t x_stride,
                          const std::uint32_t* index, unsigned cols, const std::uint32_t* live_rows) {
  release_dependents();
  grid_dependency_wait();
  const unsigned row = blockIdx.y;
  if (row >= live_count(live_rows, gridDim.y)) return;
  const unsigned col = (blockIdx.x * blockDim.x + threadIdx.x) * kVector;
  if (col >= cols) return;
  float v[kVector];
  load8(v, x + index[row] * x_stride + col);
  store8(out + row * out_stride + col, v);
}

template <typename From>
void launch_copy(const char* name, TensorView out, TensorView x, const std::uint32_t* index,
                 const std::uint32_t* live_rows, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  const unsigned blocks = (out.cols / kVector + kThreads - 1) / kThreads;
  launch(name, copy_rows<From>, {.grid = {blocks, out.rows, 1}, .block = {kThreads, 1, 1}}, stream,
         Overlap::kPrevious, reinterpret_cast<float*>(out.data), out.stride,
         reinterpret_cast<const From*>(x.data), x.stride, index, out.cols, live_rows);
}

// One block a row. The row is read twice; the second time it comes from L1.
template <typename To>
__global__ void __launch_bounds__(kNormThreads)
    rms_norm_kernel(To* out, std::size_t out_stride, const float* x, std::size_t x_stride,
                    const float* weight, unsigned cols, float eps, const std::uint32_t* live_rows) {
  release_dependents();
  grid_dependency_wait();
  const unsigned row = blockIdx.x;
  if (row >= live_count(live_rows, gridDim.x)) return;
  x += row * x_stride;
  out += row * out_stride;

  float sum = 0;
  for (unsigned col = threadIdx.x * kVector; col < cols; col += kNormThreads * kVector) {
    float v[kVector];
    load8(v, x + col);
#pragma unroll
    for (const float f : v) sum += f * f;
  }
  __shared__ float of_warp[kNormWarps];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (const float s : of_warp) total += s;
  const float scale = rsqrtf(total / static_cast<float>(cols) + eps);

  for (unsigned col = threadIdx.x * kVector; col < cols; col += kNormThreads * kVector) {
    float v[kVector];
    float w[kVector];
    load8(v, x + col);
    load8(w, weight + col);
#pragma unroll
    for (unsigned i = 0; i < kVector; ++i) v[i] *= scale * w[i];
    store8(out + col, v);
  }
}

template <typename To>
void launch_norm(const RmsNormArgs& a, cudaStream_t stream) {
  launch("rms_norm", rms_norm_kernel<To>, {.grid = {a.x.rows, 1, 1}, .block = {kNormThreads, 1, 1}}, stream,
         Overlap::kPrevious, reinterpret_cast<To*>(a.out.data), a.out.stride,
         reinterpret_cast<const float*>(a.x.data), a.x.stride, reinterpret_cast<const float*>(a.weight.data),
         a.x.cols, a.eps, a.live_rows);
}

}  // namespace

void embed(const EmbedArgs& a, cudaStream_t stream) {
  launch_copy<__nv_bfloat16>("embed", a.out, a.table, a.tokens, a.live_rows, stream);
}

void gather_rows(const GatherRowsArgs& a, cudaStream_t stream) {
  launch_copy<float>("gather_rows", a.out, a.x, a.rows, a.live_rows, stream);
}

void rms_norm(const RmsNormArgs& a, cudaStream_t stream) {
  switch (a.out.dtype) {
    case Dtype::kF32:
      return launch_norm<float>(a, stream);
    case Dtype::kBf16:
      return launch_norm<__nv_bfloat16>(a, stream);
  }
}

}  // namespace lynx::cuda
