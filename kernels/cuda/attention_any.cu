// One block per (row, query head). Its warps take keys in turn, four at a time, each with its own softmax;
// the merge is in rising order of warps.
#include "kernels/cuda/attention_any.h"

#include <cmath>
#include <stdexcept>

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kKeys = 4;  // of a warp at a time

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const float* q;
  std::size_t q_stride;
  unsigned per_kv, rows;
  float scale;
  KvLayer kv;
  StagedRows staged;
};

__device__ float as_float(float value) { return value; }
__device__ float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <unsigned kParts, typename Element, typename Out>
__global__ void __launch_bounds__(kWarps* kWarp) attention_any_kernel(const Params p) {
  constexpr unsigned kD = kParts * kWarp;
  __shared__ float outs[kWarps][kD];
  __shared__ float2 states[kWarps];
  const unsigned head = blockIdx.x;
  const unsigned row = blockIdx.y;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  release_dependents();
  grid_dependency_wait();
  if (row >= live_count(p.staged.live_rows, p.rows)) return;

  const unsigned context = p.staged.positions[row] + 1;
  const BlockId* table = table_of(p.staged, row);
  const std::byte* base = p.kv.base + head / p.per_kv * kD * sizeof(Element);
  const float* query = p.q + row * p.q_stride + head * kD;
  float q[kParts];
  float out[kParts] = {};
#pragma unroll
  for (unsigned j = 0; j < kParts; ++j) q[j] = query[j * kWarp + lane] * p.scale;
  float max = -INFINITY;
  float sum = 0;

  for (unsigned first = warp * kKeys; first < context; first += kWarps * kKeys) {
    float score[kKeys];
    float v[kKeys][kParts];
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      const auto* k =
          reinterpret_cast<const Element*>(base + token_offset(p.kv, table, min(first + i, context - 1)));
      const auto* values =
          reinterpret_cast<const Element*>(reinterpret_cast<const std::byte*>(k) + p.kv.v_bytes);
      score[i] = 0;
#pragma unroll
      for (unsigned j = 0; j < kParts; ++j) {
        score[i] += q[j] * as_float(k[j * kWarp + lane]);
        v[i][j] = as_float(values[j * kWarp + lane]);
      }
    }
    float now = max;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      score[i] = warp_sum(score[i]);
      if (first + i >= context) score[i] = -INFINITY;
      now = fmaxf(now, score[i]);
    }
    const float factor = rescale(max, now);
    max = now;
    sum *= factor;
#pragma unroll
    for (float& o : out) o *= factor;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      const float weight = exp2f(score[i] - now);
      sum += weight;
#pragma unroll
      for (unsigned j = 0; j < kParts; ++j) out[j] += weight * v[i][j];
    }
  }

#pragma unroll
  for (unsigned j = 0; j < kParts; ++j) outs[warp][j * kWarp + lane] = out[j];
  if (lane == 0) states[warp] = {max, sum};
  __syncthreads();
  float top = -INFINITY;
  for (const float2 state : states) top = fmaxf(top, state.x);
  for (unsigned d = threadIdx.x; d < kD; d += kWarps * kWarp) {
    float total = 0;
    float value = 0;
#pragma unroll
    for (unsigned w = 0; w < kWarps; ++w) {
      const float factor = rescale(states[w].x, top);
      total += states[w].y * factor;
      value += outs[w][d] * factor;
    }
    store1(reinterpret_cast<Out*>(p.out) + row * p.out_stride + head * kD + d, value / total);
  }
}

template <unsigned kParts, typename Element>
void launch_out(const Params& p, Dtype out, const Shape& shape, cudaStream_t stream) {
  switch (out) {
    case Dtype::kF32:
      return launch("attention_any", attention_any_kernel<kParts, Element, float>, shape, stream,
                    Overlap::kPrevious, p);
    case Dtype::kBf16:
      return launch("attention_any", attention_any_kernel<kParts, Element, __nv_bfloat16>, shape, stream,
                    Overlap::kPrevious, p);
  }
}

template <unsigned kParts>
void launch_element(const Params& p, Dtype out, const Shape& shape, cudaStream_t stream) {
  switch (p.kv.dtype) {
    case KvDtype::kF32:
      return launch_out<kParts, float>(p, out, shape, stream);
    case KvDtype::kBf16:
      return launch_out<kParts, __nv_bfloat16>(p, out, shape, stream);
  }
}

}  // namespace

void attention_any(TensorView out, TensorView q, const KvLayer& kv, const StagedRows& rows,
                   cudaStream_t stream) {
  const unsigned q_heads = q.cols / kv.head_dim;
  const Params p = {.out = out.data,
                    .out_stride = out.stride,
                    .q = reinterpret_cast<const float*>(q.data),
                    .q_stride = q.stride,
                    .per_kv = q_heads / kv.kv_heads,
                    .rows = q.rows,
                    .scale = kLog2E / std::sqrt(static_cast<float>(kv.head_dim)),
                    .kv = kv,
                    .staged = rows};
  const Shape shape = {.grid = {q_heads, q.rows, 1}, .block = {kWarps * kWarp, 1, 1}};
  switch (kv.head_dim) {
    case 32:
      return launch_element<1>(p, out.dtype, shape, stream);
    case 64:
      return launch_element<2>(p, out.dtype, shape, stream);
    case 96:
      return launch_element<3>(p, out.dtype, shape, stream);
    case 128:
      return launch_element<4>(p, out.dtype, shape, stream);
    case 192:
      return launch_element<6>(p, out.dtype, shape, stream);
    case 256:
      return launch_element<8>(p, out.dtype, shape, stream);
    default:
      throw std::runtime_error("attention on CUDA: no kernel for heads of " + std::to_string(kv.head_dim));
  }
}

}  // namespace lynx::cuda
