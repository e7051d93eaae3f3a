// Decode attention in bf16: bound by reading K and V once.
//
// A row's keys are cut into parts at multiples of split_tokens(context). A task is (row, part, KV head, up to
// 8 of its query heads); blocks take tasks in turn. Four warps share a task's keys in tiles of 16, each with
// its own softmax; merging is in rising order of warps, then of parts, by the block that ends last.
//
// Everything is transposed so that the 8 query heads fill the narrow side of mma.m16n8k16: scores are
// K q^T [16 keys, 8 heads], outputs V^T p^T [16 of D, 8 heads]. Loads are 16 bytes straight from the pool;
// the order in which d meets an instruction's slots is permuted alike in both operands, V's rows of d come
// out permuted and are put right at the end.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_any.h"
#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kThreads = kWarps * kWarp;
constexpr unsigned kHeads = 8;  // query heads of a task
constexpr unsigned kTileKeys = 16;
constexpr unsigned kBlocksPerMultiprocessor = 3;
constexpr unsigned kMaxSplit = 1024;

// Keys of a part. Longer contexts have parts enough to fill the device; larger ones cost less merging.
__host__ __device__ constexpr unsigned split_tokens(unsigned context) {
  return context <= 8192 ? 256 : context <= 32768 ? 512 : kMaxSplit;
}
__host__ __device__ constexpr unsigned parts_of(unsigned context) {
  return (context + split_tokens(context) - 1) / split_tokens(context);
}
// The most parts of any context up to this one.
unsigned most_parts(unsigned context) {
  return std::max(
      {parts_of(context), parts_of(std::min(context, 8192U)), parts_of(std::min(context, 32768U))});
}

struct Workspace {
  std::uint32_t* done;  // [rows, units] parts that have ended; zero between launches
  float2* softmax;      // [rows, units, parts, 8]
  float* out;           // [rows, units, parts, 8, D] not yet divided by the sum
};

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const float* q;
  std::size_t q_stride;
  unsigned rows, per_kv, groups, parts;  // groups: of 8 query heads per KV head; parts: room for
  float scale;
  KvLayer kv;
  StagedRows staged;
  Workspace work;
};

struct Task {
  unsigned row, part, kv_head, group, context;
};

// The index-th task of the step; false past the last. Every warp finds it by itself.
__device__ bool find_task(Task& task, const Params& p, unsigned index, unsigned live) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned units = p.kv.kv_heads * p.groups;
  const unsigned wanted = index / units;
  unsigned before = 0;
  for (unsigned first = 0; first < live; first += kWarp) {
    const unsigned context = first + lane < live ? p.staged.positions[first + lane] + 1 : 0;
    const unsigned parts = context == 0 ? 0 : parts_of(context);
    unsigned through = parts;
#pragma unroll
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const unsigned other = __shfl_up_sync(kAllLanes, through, step);
      if (lane >= step) through += other;
    }
    const unsigned all = __shfl_sync(kAllLanes, through, kWarp - 1);
    if (wanted < before + all) {
      const unsigned at = __ffs(__ballot_sync(kAllLanes, wanted < before + through)) - 1;
      const unsigned start = __shfl_sync(kAllLanes, through - parts, at);
      const unsigned unit = index % units;
      task = {first + at, wanted - before - start, unit / p.groups, unit % p.groups,
              __shfl_sync(kAllLanes, context, at)};
      return true;
    }
    before += all;
  }
  return false;
}

template <unsigned kD>
struct Shared {
  static constexpr unsigned kPadded = kD + 4;
  std::uint32_t offsets[kMaxSplit];  // of each key of the part, in 16 bytes
  float2 softmax[kWarps][kHeads];
  float out[kWarps][kHeads][kPadded];
  bool last;
};

template <unsigned kD>
__device__ void find_keys(Shared<kD>& shared, const Params& p, const Task& task, unsigned first,
                          unsigned keys) {
  const BlockId* table = table_of(p.staged, task.row);
  for (unsigned i = threadIdx.x; i < keys; i += kThreads)
    shared.offsets[i] = static_cast<std::uint32_t>(token_offset(p.kv, table, first + i) / sizeof(uint4));
}

// Warms L2 while the kernel before still runs: it writes a few of these lines, through L2 like this read.
template <unsigned kD>
__device__ void prefetch_keys(const Shared<kD>& shared, const Params& p, const Task& task, unsigned keys) {
  constexpr unsigned kLine = 128;
  constexpr unsigned kLines = kD * 2 / kLine;
  const std::byte* base = p.kv.base + task.kv_head * kD * 2;
  for (unsigned i = threadIdx.x; i < keys * kLines; i += kThreads) {
    const std::byte* k = base + std::size_t{shared.offsets[i / kLines]} * sizeof(uint4) + i % kLines * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k + p.kv.v_bytes));
  }
}

// One warp's share of a task.
template <unsigned kD>
struct Worker {
  static constexpr unsigned kSteps = kD / 32;  // 16-byte loads of a lane per key
  uint4 q[kSteps];                             // fragments of q^T
  float out[kD / 16][4] = {};
  float max[2] = {-INFINITY, -INFINITY};  // of heads 2q and 2q + 1
  float sum[2] = {};

  __device__ void load_queries(const Params& p, const Task& task) {
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned head = task.group * kHeads + g;  // among those of the KV head
    const bool exists = head < p.per_kv;
    const float* from = p.q + task.row * p.q_stride + (task.kv_head * p.per_kv + (exists ? head : 0)) * kD +
                        threadIdx.x % 4 * 8;
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      float v[8];
      load8(v, from + s * 32);
#pragma unroll
      for (float& f : v) f = exists ? f * p.scale : 0.0F;
      q[s] = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
    }
  }

  // Keys g and g + 8 of the tile, or their values.
  struct Tile {
    uint4 low[kSteps], high[kSteps];
    __device__ void load(const std::byte* base, const std::uint32_t* offsets, unsigned last) {
      const unsigned g = threadIdx.x % kWarp / 4;
      const std::byte* a = base + std::size_t{offsets[min(g, last)]} * sizeof(uint4);
      const std::byte* b = base + std::size_t{offsets[min(g + 8, last)]} * sizeof(uint4);
#pragma unroll
      for (unsigned s = 0; s < kSteps; ++s) low[s] = load_streaming(a + s * 64);
#pragma unroll
      for (unsigned s = 0; s < kSteps; ++s) high[s] = load_streaming(b + s * 64);
    }
  };

  __device__ void scores(float (&score)[4], const Tile& k) const {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      mma_16816(score, k.low[s].x, k.high[s].x, k.low[s].y, k.high[s].y, q[s].x, q[s].y);
      mma_16816(score, k.low[s].z, k.high[s].z, k.low[s].w, k.high[s].w, q[s].z, q[s].w);
    }
  }

  // Scores into weights; the state moves to the new maximum.
  __device__ void soften(float (&score)[4]) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      float top = fmaxf(score[h], score[h + 2]);
#pragma unroll
      for (unsigned mask = 4; mask < kWarp; mask *= 2)
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, mask));
      const float now = fmaxf(max[h], top);
      const float factor = rescale(max[h], now);
      max[h] = now;
      score[h] = exp2f(score[h] - now);
      score[h + 2] = exp2f(score[h + 2] - now);
      sum[h] = sum[h] * factor + score[h] + score[h + 2];
#pragma unroll
      for (auto& o : out) {
        o[h] *= factor;
        o[h + 2] *= factor;
      }
    }
  }

  __device__ void weigh(const float (&score)[4], const Tile& v) {
    const std::uint32_t p0 = transpose_8x8(pack_bf16(score[0], score[1]));
    const std::uint32_t p1 = transpose_8x8(pack_bf16(score[2], score[3]));
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      mma_16816(out[2 * s], transpose_8x8(v.low[s].x), transpose_8x8(v.low[s].y), transpose_8x8(v.high[s].x),
                transpose_8x8(v.high[s].y), p0, p1);
      mma_16816(out[2 * s + 1], transpose_8x8(v.low[s].z), transpose_8x8(v.low[s].w),
                transpose_8x8(v.high[s].z), transpose_8x8(v.high[s].w), p0, p1);
    }
  }

  __device__ void run(const Params& p, const Task& task, const std::uint32_t* offsets, unsigned keys) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned g = threadIdx.x % kWarp / 4;
    const std::byte* base = p.kv.base + (task.kv_head * kD + threadIdx.x % 4 * 8) * 2;
    unsigned first = warp * kTileKeys;
    if (first >= keys) return;
    Tile k;
    Tile v;
    k.load(base, offsets + first, keys - 1 - first);
    v.load(base + p.kv.v_bytes, offsets + first, keys - 1 - first);
    while (true) {
      const unsigned next = first + kWarps * kTileKeys;
      float score[4] = {};
      scores(score, k);
      if (next < keys) k.load(base, offsets + next, keys - 1 - next);
      if (first + kTileKeys > keys) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
          if (first + g + i / 2 * 8 >= keys) score[i] = -INFINITY;
      }
      soften(score);
      weigh(score, v);
      if (next >= keys) return;
      v.load(base + p.kv.v_bytes, offsets + next, keys - 1 - next);
      first = next;
    }
  }

  __device__ void publish(Shared<kD>& shared) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned q_lane = threadIdx.x % 4;
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned mask = 4; mask < kWarp; mask *= 2) sum[h] += __shfl_xor_sync(kAllLanes, sum[h], mask);
      if (g == 0) shared.softmax[warp][2 * q_lane + h] = {max[h], sum[h]};
#pragma unroll
      for (unsigned t = 0; t < kD / 16; ++t) {
        const unsigned d = t / 2 * 32 + 8 * (g / 2) + 4 * (t % 2) + g % 2;
        shared.out[warp][2 * q_lane + h][d] = out[t][h];
        shared.out[warp][2 * q_lane + h][d + 2] = out[t][h + 2];
      }
    }
  }
};

template <typename Out>
__device__ void write_out(const Params& p, const Task& task, unsigned head, unsigned d, unsigned size,
                          float value) {
  Out* row = reinterpret_cast<Out*>(p.out) + task.row * p.out_stride;
  store1(row + (task.kv_head * p.per_kv + task.group * kHeads + head) * size + d, value);
}

// Merges `count` parts, part i with state softmax(i) and output out(i).
template <typename State, typename Output>
__device__ Softmax merge(unsigned count, const State& softmax, const Output& out, float& merged) {
  float max = -INFINITY;
  for (unsigned i = 0; i < count; ++i) max = fmaxf(max, softmax(i).x);
  float sum = 0;
  merged = 0;
  for (unsigned i = 0; i < count; ++i) {
    const float2 state = softmax(i);
    const float factor = rescale(state.x, max);
    sum += state.y * factor;
    merged += out(i) * factor;
  }
  return {max, sum};
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    decode_attention_kernel(const Params p) {
  __shared__ Shared<kD> shared;
  const unsigned live = live_count(p.staged.live_rows, p.rows);
  const unsigned units = p.kv.kv_heads * p.groups;
  Task task;
  bool waited = false;
  for (unsigned index = blockIdx.x; find_task(task, p, index, live); index += gridDim.x) {
    const unsigned split = split_tokens(task.context);
    const unsigned first = task.part * split;
    const unsigned keys = min(split, task.context - first);
    __syncthreads();  // the task before is done with shared memory
    find_keys(shared, p, task, first, keys);
    __syncthreads();
    if (!waited) {
      prefetch_keys(shared, p, task, keys);
      grid_dependency_wait();
      release_dependents();
      waited = true;
    }
    Worker<kD> worker;
    worker.load_queries(p, task);
    worker.run(p, task, shared.offsets, keys);
    worker.publish(shared);
    __syncthreads();

    const unsigned heads = min(kHeads, p.per_kv - task.group * kHeads);
    const unsigned parts = parts_of(task.context);
    const std::size_t unit = std::size_t{task.row} * units + task.kv_head * p.groups + task.group;
    const std::size_t slot = (unit * p.parts + task.part) * kHeads;
    for (unsigned i = threadIdx.x; i < heads * kD; i += kThreads) {
      const unsigned head = i / kD;
      const unsigned d = i % kD;
      float value;
      const Softmax all = merge(
          kWarps, [&](unsigned w) { return shared.softmax[w][head]; },
          [&](unsigned w) { return shared.out[w][head][d]; }, value);
      if (parts == 1) {
        write_out<Out>(p, task, head, d, kD, value / all.sum);
        continue;
      }
      p.work.out[(slot + head) * kD + d] = value;
      if (d == 0) p.work.softmax[slot + head] = {all.max, all.sum};
    }
    if (parts == 1) continue;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(p.work.done + unit, 1) == parts - 1;
    __syncthreads();
    if (!shared.last) continue;
    __threadfence();
    if (threadIdx.x == 0) p.work.done[unit] = 0;
    for (unsigned i = threadIdx.x; i < heads * kD; i += kThreads) {
      const unsigned head = i / kD;
      const unsigned d = i % kD;
      const std::size_t begin = unit * p.parts * kHeads + head;
      float value;
      const Softmax all = merge(
          parts, [&](unsigned part) { return __ldcg(p.work.softmax + begin + part * kHeads); },
          [&](unsigned part) { return __ldcg(p.work.out + (begin + part * kHeads) * kD + d); }, value);
      write_out<Out>(p, task, head, d, kD, value / all.sum);
    }
  }
  if (!waited) {
    grid_dependency_wait();
    release_dependents();
  }
}

unsigned groups_of(unsigned per_kv) { return (per_kv + kHeads - 1) / kHeads; }

template <unsigned kD>
void launch_size(const Params& params, Dtype out, cudaStream_t stream) {
  const Shape shape = {.grid = {multiprocessors() * kBlocksPerMultiprocessor, 1, 1},
                       .block = {kThreads, 1, 1}};
  switch (out) {
    case Dtype::kF32:
      return launch("decode_attention", decode_attention_kernel<kD, float>, shape, stream, Overlap::kPrevious,
                    params);
    case Dtype::kBf16:
      return launch("decode_attention", decode_attention_kernel<kD, __nv_bfloat16>, shape, stream,
                    Overlap::kPrevious, params);
  }
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::size_t decode_attention_workspace(std::uint32_t max_rows, std::uint32_t q_heads, std::uint32_t kv_heads,
                                       std::uint32_t head_dim, std::uint32_t max_context) {
  const std::size_t units = std::size_t{max_rows} * kv_heads * groups_of(q_heads / kv_heads);
  const std::size_t parts = units * most_parts(max_context);
  return aligned(units * sizeof(std::uint32_t)) + aligned(parts * kHeads * sizeof(float2)) +
         parts * kHeads * head_dim * sizeof(float);
}

void decode_attention(const DecodeAttentionArgs& a, cudaStream_t stream) {
  const unsigned q_heads = a.q.cols / a.kv.head_dim;
  if (a.kv.dtype == KvDtype::kF32 || (a.kv.head_dim != 64 && a.kv.head_dim != 128))
    return attention_any(a.out, a.q, a.kv, a.rows, stream);
  Params params = {.out = a.out.data,
                   .out_stride = a.out.stride,
                   .q = reinterpret_cast<const float*>(a.q.data),
                   .q_stride = a.q.stride,
                   .rows = a.q.rows,
                   .per_kv = q_heads / a.kv.kv_heads,
                   .groups = groups_of(q_heads / a.kv.kv_heads),
                   .parts = most_parts(a.max_context),
                   .scale = kLog2E / std::sqrt(static_cast<float>(a.kv.head_dim)),
                   .kv = a.kv,
                   .staged = a.rows,
                   .work = {}};
  const std::size_t units = std::size_t{a.q.rows} * a.kv.kv_heads * params.groups;
  params.work.done = reinterpret_cast<std::uint32_t*>(a.workspace);
  std::byte* at = a.workspace + aligned(units * sizeof(std::uint32_t));
  params.work.softmax = reinterpret_cast<float2*>(at);
  at += aligned(units * params.parts * kHeads * sizeof(float2));
  params.work.out = reinterpret_cast<float*>(at);
  if (a.kv.head_dim == 64) return launch_size<64>(params, a.out.dtype, stream);
  launch_size<128>(params, a.out.dtype, stream);
}

}  // namespace lynx::cuda
