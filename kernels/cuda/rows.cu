#include "kernels/cuda/rows.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_squares.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kVector = 8;  // elements of one access
constexpr unsigned kNormThreads = 256;

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

// One block a row, four lanes each 64 elements; rows longer than that go round again, and are read twice.
template <typename To>
__global__ void __launch_bounds__(kNormThreads)
    rms_norm_kernel(To* out, std::size_t out_stride, const float* x, std::size_t x_stride,
                    const float* weight, unsigned cols, float eps, const std::uint32_t* live_rows) {
  constexpr unsigned kGroups = kNormThreads / 4;
  __shared__ float of_group[kGroups];
  release_dependents();
  grid_dependency_wait();
  const unsigned row = blockIdx.x;
  if (row >= live_count(live_rows, gridDim.x)) return;
  x += row * x_stride;
  out += row * out_stride;
  const unsigned first = threadIdx.x / 4 * kSquareGroup + threadIdx.x % 4 * kVector;

  float v[2][kVector];
  const auto load = [&](unsigned col) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      if (col + 32 * i < cols)
        load8(v[i], x + col + 32 * i);
      else
#pragma unroll
        for (float& f : v[i]) f = 0;
    }
  };
  float total = 0;
  for (unsigned pass = 0; pass < cols; pass += kGroups * kSquareGroup) {
    load(pass + first);
    const float sum = squares_of_group(v);
    if (pass > 0) __syncthreads();
    if (threadIdx.x % 4 == 0) of_group[threadIdx.x / 4] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned chunk = 0; chunk < kGroups; chunk += kGroupsOfChunk)
      total += squares_of_chunk([&](unsigned i) { return of_group[chunk + i]; });
  }
  const float scale = norm_scale(total, cols, eps);
  for (unsigned pass = 0; pass < cols; pass += kGroups * kSquareGroup) {
    if (cols > kGroups * kSquareGroup) load(pass + first);
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned col = pass + first + 32 * i;
      if (col >= cols) continue;
      float w[kVector];
      load8(w, weight + col);
      norm8(v[i], w, scale);
      store8(out + col, v[i]);
    }
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
