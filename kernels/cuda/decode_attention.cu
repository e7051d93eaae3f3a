// Decode attention in bf16: bound by reading K and V once.
//
// A row's keys are cut into parts at multiples of split_tokens(context). A task is (row, part, KV head, up to
// 8 of its query heads); blocks take tasks in turn. Eight warps share a task's keys in tiles of 16, each with
// its own softmax; merging is in rising order of warps, then of parts, by the block that ends last.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_any.h"
#include "kernels/cuda/decode_merge.cuh"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

using namespace decode;

constexpr unsigned kBlocksPerMultiprocessor = 2;
constexpr unsigned kMaxContext = kMaxParts * kMaxSplit;

// Keys of a part. Longer contexts have parts enough to fill the device; larger ones cost less merging.
__host__ __device__ constexpr unsigned split_tokens(unsigned context) {
  return context <= 4096 ? 256 : context <= 16384 ? 512 : kMaxSplit;
}
__host__ __device__ constexpr unsigned parts_of(unsigned context) {
  return (context + split_tokens(context) - 1) / split_tokens(context);
}
// The most parts of any context up to this one.
unsigned most_parts(unsigned context) {
  return std::max(
      {parts_of(context), parts_of(std::min(context, 4096U)), parts_of(std::min(context, 16384U))});
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
      task.row = first + at;
      task.part = wanted - before - start;
      task.kv_head = unit / p.groups;
      task.group = unit % p.groups;
      task.context = __shfl_sync(kAllLanes, context, at);
      task.first = task.part * split_tokens(task.context);
      task.keys = min(split_tokens(task.context), task.context - task.first);
      return true;
    }
    before += all;
  }
  return false;
}

__device__ void find_keys(std::uint32_t* offsets, const Params& p, const Task& task) {
  const BlockId* table = table_of(p.staged, task.row);
  for (unsigned i = threadIdx.x; i < task.keys; i += kThreads)
    offsets[i] = static_cast<std::uint32_t>(token_offset(p.kv, table, task.first + i) / sizeof(uint4));
}

// Warms L2 with the warps' first tiles while the kernel before still runs: it writes a few of these lines,
// through L2 like this read. More would only push the rest out of L2 again.
template <unsigned kD>
__device__ void prefetch_keys(const std::uint32_t* offsets, const Params& p, const Task& task) {
  constexpr unsigned kLine = 128;
  constexpr unsigned kLines = kD * 2 / kLine;
  const std::byte* base = p.kv.base + task.kv_head * kD * 2;
  for (unsigned i = threadIdx.x; i < min(task.keys, kWarps * kTileKeys) * kLines; i += kThreads) {
    const std::byte* k = base + std::size_t{offsets[i / kLines]} * sizeof(uint4) + i % kLines * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k + p.kv.v_bytes));
  }
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    decode_attention_kernel(const Params p) {
  __shared__ Shared<kD> shared;
  release_dependents();
  const unsigned live = live_count(p.staged.live_rows, p.rows);
  unsigned index = blockIdx.x;
  Task task;
  bool more = find_task(task, p, index, live);
  unsigned buffer = 0;  // of offsets
  if (more) {
    find_keys(shared.offsets[buffer], p, task);
    __syncthreads();
    prefetch_keys<kD>(shared.offsets[buffer], p, task);
  }
  grid_dependency_wait();
  Worker<kD> worker;
  if (more) worker.start(p, task, shared.offsets[buffer]);
  while (more) {
    const Task now = task;
    stage_queries(shared, p, now);
    __syncthreads();
    worker.clear();
    worker.run(p, now, shared.offsets[buffer], shared.q);
    // The next task's first tile is on its way while this one's results are merged.
    index += gridDim.x;
    buffer ^= 1;
    more = find_task(task, p, index, live);
    if (more) find_keys(shared.offsets[buffer], p, task);
    worker.publish(shared);
    __syncthreads();
    if (more) worker.start(p, task, shared.offsets[buffer]);
    const unsigned parts = parts_of(now.context);
    const std::size_t unit = (std::size_t{now.row} * p.kv.kv_heads + now.kv_head) * p.groups + now.group;
    if (finish_part<kD, Out>(shared, p, now, unit, parts)) merge_parts<kD, Out>(shared, p, now, unit, parts);
    __syncthreads();  // done with shared memory
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
