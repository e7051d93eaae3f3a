// Decode attention in bf16: bound by reading K and V once.
//
// A row's keys are cut into parts at multiples of split_tokens(context). A task is (row, part, KV head, up to
// 8 of its query heads); blocks take tasks in turn. Eight warps share a task's keys in tiles of 16, each with
// its own softmax; merging is in rising order of warps, then of parts, by the block that ends last.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cuda/decode_portable_merge.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace {

using namespace decode_portable;

constexpr unsigned kBlocksPerMultiprocessor = 2;
constexpr unsigned kMaxContext = kMaxParts * kMaxSplit;

// The most parts of any context up to this one.
unsigned most_parts(unsigned context) {
  return std::max(
      {parts_of(context), parts_of(std::min(context, 4096U)), parts_of(std::min(context, 16384U))});
}

// Finds the index-th task, and where its keys lie.
template <unsigned kD>
__device__ bool prepare_task(Shared<kD>& shared, const Params& p, unsigned index, unsigned buffer,
                             unsigned live) {
  Task task;
  if (!find_task(task, p, index, live)) return false;
  if (threadIdx.x == 0) shared.task[buffer] = task;
  const BlockId* table = table_of(p.staged, task.row);
  for (unsigned i = threadIdx.x; i < task.keys; i += kThreads) {
    shared.offsets[buffer][i] =
        static_cast<std::uint32_t>(token_offset(p.kv, table, task.first + i) / sizeof(uint4));
  }
  return true;
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor) decode_portable_kernel(const Params p) {
  __shared__ Shared<kD> shared;
  release_dependents();
  const unsigned live = live_count(p.staged.live_rows, p.rows);
  unsigned index = blockIdx.x;
  unsigned buffer = 0;
  bool more = prepare_task(shared, p, index, buffer, live);
  __syncthreads();
  if (more) prefetch_tile<kD>(p, shared.task[buffer], shared.offsets[buffer], first_key());
  grid_dependency_wait();
  while (more) {
    const Task& now = shared.task[buffer];
    Worker<kD> worker;
    stage_queries(shared, p, now);
    __syncthreads();
    worker.run(p, now, shared.offsets[buffer], shared.q);
    worker.publish(shared);
    // While this task's results are merged, the next one's first keys come nearer.
    index += gridDim.x;
    buffer ^= 1;
    more = prepare_task(shared, p, index, buffer, live);
    __syncthreads();
    if (more) prefetch_tile<kD>(p, shared.task[buffer], shared.offsets[buffer], first_key());
    finish_task<kD, Out>(shared, p, now);
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
      return launch("decode_attention_portable", decode_portable_kernel<kD, float>, shape, stream,
                    Overlap::kPrevious, params);
    case Dtype::kBf16:
      return launch("decode_attention_portable", decode_portable_kernel<kD, __nv_bfloat16>, shape, stream,
                    Overlap::kPrevious, params);
  }
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The counters lie first and have their place whatever the number of rows: what a small batch leaves behind
// them must not be a larger one's counters.
std::size_t counter_bytes(unsigned units_of_row) {
  return aligned(std::size_t{kMaxDecodeRows} * units_of_row * sizeof(std::uint32_t));
}

}  // namespace

std::uint32_t decode_portable_context_limit() { return kMaxContext; }

std::size_t decode_attention_portable_workspace(std::uint32_t max_rows, std::uint32_t q_heads,
                                                std::uint32_t kv_heads, std::uint32_t head_dim,
                                                std::uint32_t max_context) {
  const unsigned units_of_row = kv_heads * groups_of(q_heads / kv_heads);
  const std::size_t parts = std::size_t{max_rows} * units_of_row * most_parts(max_context);
  return counter_bytes(units_of_row) + aligned(parts * kHeads * sizeof(float2)) +
         parts * kHeads * head_dim * sizeof(float);
}

void decode_attention_portable(const DecodeAttentionArgs& a, cudaStream_t stream) {
  const RopeStoreArgs& in = a.in;
  if (in.q.rows > kMaxDecodeRows) throw std::runtime_error("decode attention: at most 64 rows");
  if (a.max_context > kMaxContext)
    throw std::runtime_error("decode attention, portable kernels: a context of at most 131072 tokens");
  rope_store(in, stream);
  const unsigned per_kv = in.q.cols / in.kv.head_dim / in.kv.kv_heads;
  Params params = {.out = a.out.data,
                   .out_stride = a.out.stride,
                   .q = reinterpret_cast<const float*>(in.q.data),
                   .q_stride = in.q.stride,
                   .rows = in.q.rows,
                   .per_kv = per_kv,
                   .groups = groups_of(per_kv),
                   .parts = most_parts(a.max_context),
                   .scale = kLog2E / std::sqrt(static_cast<float>(in.kv.head_dim)),
                   .kv = in.kv,
                   .staged = in.rows,
                   .work = {}};
  const std::size_t units = std::size_t{in.q.rows} * in.kv.kv_heads * params.groups;
  params.work.done = reinterpret_cast<std::uint32_t*>(a.workspace);
  std::byte* at = a.workspace + counter_bytes(in.kv.kv_heads * params.groups);
  params.work.softmax = reinterpret_cast<float2*>(at);
  at += aligned(units * params.parts * kHeads * sizeof(float2));
  params.work.out = reinterpret_cast<float*>(at);
  if (in.kv.head_dim == 64) return launch_size<64>(params, a.out.dtype, stream);
  launch_size<128>(params, a.out.dtype, stream);
}

}  // namespace lynx::cuda
