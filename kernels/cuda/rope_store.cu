#include "kernels/cuda/rope_store.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kWarps = 8;
constexpr unsigned kMaxPairs = 4;  // of a lane: D up to 256

struct Params {
  float* q;
  const float *k, *v;
  std::size_t q_stride, k_stride, v_stride;
  const float *q_weight, *k_weight, *rope;
  std::size_t rope_stride;
  float eps;
  unsigned q_heads, head_dim, rows;
  KvLayer kv;
  StagedRows staged;
};

// Elements i and i + D/2 of a head turn together; a lane holds the pairs lane, lane + 32, ...
struct Pairs {
  float low[kMaxPairs], high[kMaxPairs];
};

__device__ Pairs load_head(const float* head, unsigned half, unsigned lane) {
  Pairs x;
#pragma unroll
  for (unsigned j = 0; j < kMaxPairs; ++j) {
    const unsigned i = lane + j * kWarp;
    x.low[j] = i < half ? head[i] : 0.0F;
    x.high[j] = i < half ? head[half + i] : 0.0F;
  }
  return x;
}

__device__ void norm(Pairs& x, const float* weight, float eps, unsigned half, unsigned lane) {
  if (weight == nullptr) return;
  float sum = 0;
#pragma unroll
  for (unsigned j = 0; j < kMaxPairs; ++j) sum += x.low[j] * x.low[j] + x.high[j] * x.high[j];
  const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(2 * half) + eps);
#pragma unroll
  for (unsigned j = 0; j < kMaxPairs; ++j) {
    const unsigned i = lane + j * kWarp;
    if (i >= half) continue;
    x.low[j] *= scale * weight[i];
    x.high[j] *= scale * weight[half + i];
  }
}

__device__ void rotate(Pairs& x, const float* rope, unsigned half, unsigned lane) {
#pragma unroll
  for (unsigned j = 0; j < kMaxPairs; ++j) {
    const unsigned i = lane + j * kWarp;
    if (i >= half) continue;
    const float cos = rope[i];
    const float sin = rope[half + i];
    const float low = x.low[j];
    x.low[j] = low * cos - x.high[j] * sin;
    x.high[j] = x.high[j] * cos + low * sin;
  }
}

template <typename To>
__device__ void store_head(To* head, const Pairs& x, unsigned half, unsigned lane) {
#pragma unroll
  for (unsigned j = 0; j < kMaxPairs; ++j) {
    const unsigned i = lane + j * kWarp;
    if (i >= half) continue;
    store1(head + i, x.low[j]);
    store1(head + half + i, x.high[j]);
  }
}

// One warp a head: the query heads, then those of keys, then those of values.
template <typename KvElement>
__global__ void __launch_bounds__(kWarps* kWarp) rope_store_kernel(const Params p) {
  const unsigned row = blockIdx.y;
  const unsigned head = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned half = p.head_dim / 2;
  release_dependents();
  grid_dependency_wait();
  if (row >= live_count(p.staged.live_rows, p.rows) || head >= p.q_heads + 2 * p.kv.kv_heads) return;
  const unsigned position = p.staged.positions[row];
  const float* rope = p.rope + position * p.rope_stride;

  if (head < p.q_heads) {
    float* at = p.q + row * p.q_stride + head * p.head_dim;
    Pairs x = load_head(at, half, lane);
    norm(x, p.q_weight, p.eps, half, lane);
    rotate(x, rope, half, lane);
    store_head(at, x, half, lane);
    return;
  }
  const bool is_key = head < p.q_heads + p.kv.kv_heads;
  const unsigned kv_head = (head - p.q_heads) % p.kv.kv_heads;
  Pairs x = load_head((is_key ? p.k + row * p.k_stride : p.v + row * p.v_stride) + kv_head * p.head_dim, half,
                      lane);
  if (is_key) {
    norm(x, p.k_weight, p.eps, half, lane);
    rotate(x, rope, half, lane);
  }
  const unsigned sequence = p.staged.sequence == nullptr ? row : p.staged.sequence[row];
  const BlockId block =
      p.staged.tables[std::size_t{sequence} * p.staged.table_stride + position / p.kv.block_tokens];
  std::byte* token = p.kv.base + block * p.kv.block_bytes + position % p.kv.block_tokens * p.kv.token_bytes +
                     (is_key ? 0 : p.kv.v_bytes);
  store_head(reinterpret_cast<KvElement*>(token) + kv_head * p.head_dim, x, half, lane);
}

}  // namespace

void rope_store(const RopeStoreArgs& a, cudaStream_t stream) {
  const auto floats = [](TensorView view) { return reinterpret_cast<const float*>(view.data); };
  const unsigned q_heads = a.q.cols / a.kv.head_dim;
  const Params params = {.q = reinterpret_cast<float*>(a.q.data),
                         .k = floats(a.k),
                         .v = floats(a.v),
                         .q_stride = a.q.stride,
                         .k_stride = a.k.stride,
                         .v_stride = a.v.stride,
                         .q_weight = floats(a.q_weight),
                         .k_weight = floats(a.k_weight),
                         .rope = floats(a.rope),
                         .rope_stride = a.rope.stride,
                         .eps = a.eps,
                         .q_heads = q_heads,
                         .head_dim = a.kv.head_dim,
                         .rows = a.q.rows,
                         .kv = a.kv,
                         .staged = a.rows};
  const unsigned blocks = (q_heads + 2 * a.kv.kv_heads + kWarps - 1) / kWarps;
  const Shape shape = {.grid = {blocks, a.q.rows, 1}, .block = {kWarps * kWarp, 1, 1}};
  switch (a.kv.dtype) {
    case KvDtype::kF32:
      return launch("rope_store", rope_store_kernel<float>, shape, stream, Overlap::kPrevious, params);
    case KvDtype::kBf16:
      return launch("rope_store", rope_store_kernel<__nv_bfloat16>, shape, stream, Overlap::kPrevious,
                    params);
  }
}

}  // namespace lynx::cuda
