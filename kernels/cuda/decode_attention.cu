// Decode attention in bf16: bound by reading K and V once.
//
// A row's keys are cut into parts at multiples of split_tokens(context). A task is (row, part, KV head, up to
// 8 of its query heads); blocks take tasks in turn. Four warps share a task's keys in tiles of 16, each with
// its own softmax; merging is in rising order of warps, then of parts, by the block that ends last.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_any.h"
#include "kernels/cuda/decode_worker.cuh"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

using namespace decode;

constexpr unsigned kBlocksPerMultiprocessor = 3;
constexpr unsigned kMaxContext = kMaxParts * kMaxSplit;

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

// A thread merges for one head, as one of 16 lanes of its warp, and owns kD / 16 consecutive elements of it.
constexpr unsigned kLanes = kThreads / kHeads;

template <unsigned kD>
struct Merged {
  static constexpr unsigned kEach = kD / kLanes;
  float out[kEach] = {};
  Softmax all;
};

// Turns the maxima of `count` softmaxes into the factors that bring them to the common one.
__device__ Softmax merge_softmaxes(float2 (*softmax)[kHeads], unsigned count) {
  const unsigned head = threadIdx.x / kLanes;
  float max = -INFINITY;
  for (unsigned i = threadIdx.x % kLanes; i < count; i += kLanes) max = fmaxf(max, softmax[i][head].x);
#pragma unroll
  for (unsigned mask = 1; mask < kLanes; mask *= 2) max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, mask));
  float sum = 0;
  for (unsigned i = threadIdx.x % kLanes; i < count; i += kLanes) {
    const float2 state = softmax[i][head];
    const float factor = rescale(state.x, max);
    sum += state.y * factor;
    softmax[i][head].x = factor;
  }
#pragma unroll
  for (unsigned mask = 1; mask < kLanes; mask *= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  __syncwarp();
  return {max, sum};
}

// Adds up `count` outputs, output i at load(i) and times the factor that merge_softmaxes left.
template <unsigned kD, typename Load>
__device__ void merge_outputs(Merged<kD>& merged, const float2 (*softmax)[kHeads], unsigned count,
                              const Load& load) {
  const unsigned head = threadIdx.x / kLanes;
#pragma unroll 4
  for (unsigned i = 0; i < count; ++i) {
    float v[Merged<kD>::kEach];
    load(v, i);
    const float factor = softmax[i][head].x;
#pragma unroll
    for (unsigned e = 0; e < Merged<kD>::kEach; ++e) merged.out[e] += v[e] * factor;
  }
}

template <unsigned kEach>
__device__ void load_cached(float (&v)[kEach], const float* from) {  // past L1: other blocks wrote it
#pragma unroll
  for (unsigned e = 0; e < kEach; e += 4) {
    const float4 four = __ldcg(reinterpret_cast<const float4*>(from + e));
    v[e] = four.x, v[e + 1] = four.y, v[e + 2] = four.z, v[e + 3] = four.w;
  }
}

template <unsigned kD, typename Out>
__device__ void write_out(const Params& p, const Task& task, const Merged<kD>& merged) {
  const unsigned head = task.group * kHeads + threadIdx.x / kLanes;
  if (head >= p.per_kv) return;
  Out* to = reinterpret_cast<Out*>(p.out) + task.row * p.out_stride + (task.kv_head * p.per_kv + head) * kD +
            threadIdx.x % kLanes * Merged<kD>::kEach;
#pragma unroll
  for (unsigned e = 0; e < Merged<kD>::kEach; ++e) store1(to + e, merged.out[e] / merged.all.sum);
}

// The warps' results into the row's output, or into the workspace; true if this block was the row's last.
template <unsigned kD, typename Out>
__device__ bool finish_part(Shared<kD>& shared, const Params& p, const Task& task, std::size_t unit,
                            unsigned parts) {
  constexpr unsigned kEach = Merged<kD>::kEach;
  const unsigned head = threadIdx.x / kLanes;
  const unsigned d = threadIdx.x % kLanes * kEach;
  Merged<kD> merged;
  merged.all = merge_softmaxes(shared.of_warp, kWarps);
  merge_outputs<kD>(merged, shared.of_warp, kWarps, [&](float(&v)[kEach], unsigned w) {
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) v[e] = shared.out[w][head][d + e];
  });
  if (parts == 1) {
    write_out<kD, Out>(p, task, merged);
    return false;
  }
  const std::size_t slot = (unit * p.parts + task.part) * kHeads + head;
#pragma unroll
  for (unsigned e = 0; e < kEach; e += 4) {
    *reinterpret_cast<float4*>(p.work.out + slot * kD + d + e) = {merged.out[e], merged.out[e + 1],
                                                                  merged.out[e + 2], merged.out[e + 3]};
  }
  if (d == 0) p.work.softmax[slot] = {merged.all.max, merged.all.sum};
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared.last = atomicAdd(p.work.done + unit, 1) == parts - 1;
  __syncthreads();
  return shared.last;
}

template <unsigned kD, typename Out>
__device__ void merge_parts(Shared<kD>& shared, const Params& p, const Task& task, std::size_t unit,
                            unsigned parts) {
  constexpr unsigned kEach = Merged<kD>::kEach;
  __threadfence();
  if (threadIdx.x == 0) p.work.done[unit] = 0;
  const std::size_t begin = unit * p.parts * kHeads;
  for (unsigned i = threadIdx.x; i < parts * kHeads; i += kThreads)
    shared.softmax[i / kHeads][i % kHeads] = __ldcg(p.work.softmax + begin + i);
  __syncthreads();
  Merged<kD> merged;
  merged.all = merge_softmaxes(shared.softmax, parts);
  const float* from = p.work.out + (begin + threadIdx.x / kLanes) * kD + threadIdx.x % kLanes * kEach;
  merge_outputs<kD>(merged, shared.softmax, parts, [&](float(&v)[kEach], unsigned part) {
    load_cached(v, from + std::size_t{part} * kHeads * kD);
  });
  write_out<kD, Out>(p, task, merged);
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    decode_attention_kernel(const Params p) {
  __shared__ Shared<kD> shared;
  const unsigned live = live_count(p.staged.live_rows, p.rows);
  bool waited = false;
  Task task;
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
    const unsigned parts = parts_of(task.context);
    const std::size_t unit = (std::size_t{task.row} * p.kv.kv_heads + task.kv_head) * p.groups + task.group;
    if (finish_part<kD, Out>(shared, p, task, unit, parts))
      merge_parts<kD, Out>(shared, p, task, unit, parts);
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
  if (a.max_context > kMaxContext)
    throw std::runtime_error("decode attention: a context of at most 131072 tokens");
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
