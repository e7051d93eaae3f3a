// Decode attention in bf16, with the norm and rotary embedding of the step's queries and keys and the write
// of its keys and values before it: bound by reading K and V once.
//
// A row's keys are cut into parts, whose length its context gives (split_bits). A task is (row, part, KV
// heads of a slice with up to 8 query heads each); a block's tasks lie side by side and hold as many keys as
// any other's, but for the ends (TaskWalk). In each block one warp keeps a ring of shared memory full with
// bulk copies, and eight compute, each for one KV head. A second launch merges the parts of each row in
// rising order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/attention_any.h"
#include "kernels/cuda/decode_params.h"
#include "kernels/cuda/decode_rows.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace lynx::cuda {
namespace decode {
namespace {

constexpr unsigned kRingBytes = 192 * 1024;
constexpr unsigned kMergeWarps = 4;

// The most parts of any context up to this one.
unsigned most_parts(unsigned context) {
  return std::max({parts_of(context), parts_of(std::min(context, 2048U)), parts_of(std::min(context, 4096U)),
                   parts_of(std::min(context, 16384U))});
}

unsigned groups_of(unsigned per_kv) { return (per_kv + kHeads - 1) / kHeads; }

// KV heads of a slice: as many as fit, a power of two that divides them all.
unsigned slice_heads_of(unsigned kv_heads, unsigned head_dim) {
  unsigned heads = std::min(kSliceElements / head_dim, kWarps);
  while (kv_heads % heads != 0) heads /= 2;
  return heads;
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

template <unsigned kD>
__global__ void __launch_bounds__(kThreads, 1) decode_parts_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) std::byte memory[];
  __shared__ RingBarriers barriers;
  __shared__ HeadTables<kD> tables;
  release_dependents();
  if (threadIdx.x == 0) barriers.init(kWarps);
  __syncthreads();
  const Ring ring = {memory, min(kMaxStages, kRingBytes / tile_bytes(p.row_bytes)), tile_bytes(p.row_bytes),
                     barriers};
  if (warp_index() == kProducer) {
    RingFiller filler(ring);
    return stream_keys(p, filler, evict_first_policy(), [] {});
  }
  const Contexts contexts(p);
  const TaskWalk walk(p, contexts);
  tables.fill(p, walk.row(), contexts);
  sync_threads(1, kComputeThreads);
  StageCursor at;
  grid_dependency_wait();
  attend_parts<kD>(p, tables, walk, ring, at);
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kMergeWarps* kWarp) decode_merge_kernel(const __grid_constant__ Params p) {
  release_dependents();
  const MergeWalk<kD / 16> walk(p, Contexts(p), kMergeWarps);
  grid_dependency_wait();
  merge_rows<kD, Out>(p, walk);
}

template <unsigned kD, typename Out>
void launch_out(const Params& p, cudaStream_t stream) {
  launch("decode_parts", decode_parts_kernel<kD>,
         {.grid = {multiprocessors(), 1, 1}, .block = {kThreads, 1, 1}, .shared_bytes = kRingBytes}, stream,
         Overlap::kPrevious, p);
  const unsigned items = p.rows * p.kv.kv_heads * p.groups * (kD / 16);
  launch("decode_merge", decode_merge_kernel<kD, Out>,
         {.grid = {(items + kMergeWarps - 1) / kMergeWarps, 1, 1}, .block = {kMergeWarps * kWarp, 1, 1}},
         stream, Overlap::kPrevious, p);
}

template <unsigned kD>
void launch_size(const Params& p, Dtype out, cudaStream_t stream) {
  switch (out) {
    case Dtype::kF32:
      return launch_out<kD, float>(p, stream);
    case Dtype::kBf16:
      return launch_out<kD, __nv_bfloat16>(p, stream);
  }
}

}  // namespace

bool takes(KvDtype dtype, std::uint32_t head_dim) {
  return dtype == KvDtype::kBf16 && (head_dim == 64 || head_dim == 128);
}

Params make_params(const DecodeAttentionArgs& a) {
  const auto floats = [](TensorView view) { return reinterpret_cast<const float*>(view.data); };
  const RopeStoreArgs& in = a.in;
  if (in.q.rows > kMaxDecodeRows) throw std::runtime_error("decode attention: at most 64 rows");
  if (a.max_context > kMaxContext)
    throw std::runtime_error("decode attention: a context of at most " + std::to_string(kMaxContext) +
                             " tokens");
  const unsigned per_kv = in.q.cols / in.kv.head_dim / in.kv.kv_heads;
  const unsigned slice_heads = slice_heads_of(in.kv.kv_heads, in.kv.head_dim);
  Params p = {.out = a.out.data,
              .out_stride = a.out.stride,
              .q = floats(in.q),
              .k = floats(in.k),
              .v = floats(in.v),
              .q_stride = in.q.stride,
              .k_stride = in.k.stride,
              .v_stride = in.v.stride,
              .q_weight = floats(in.q_weight),
              .k_weight = floats(in.k_weight),
              .rope = floats(in.rope),
              .rope_stride = in.rope.stride,
              .eps = in.eps,
              .scale = kLog2E / std::sqrt(static_cast<float>(in.kv.head_dim)),
              .rows = in.q.rows,
              .per_kv = per_kv,
              .groups = groups_of(per_kv),
              .parts = most_parts(a.max_context),
              .slice_bits = static_cast<unsigned>(std::countr_zero(slice_heads)),
              .slices = in.kv.kv_heads / slice_heads,
              .row_bytes = slice_heads * in.kv.head_dim * 2,
              .kv = in.kv,
              .block_tokens = Divider(in.kv.block_tokens),
              .units_of_row = Divider(in.kv.kv_heads * groups_of(per_kv)),
              .groups_of_head = Divider(groups_of(per_kv)),
              .staged = in.rows,
              .work = {}};
  const std::size_t units = std::size_t{p.rows} * p.kv.kv_heads * p.groups;
  p.work.softmax = reinterpret_cast<float2*>(a.workspace);
  p.work.out = reinterpret_cast<uint2*>(a.workspace + aligned(units * p.parts * kHeads * sizeof(float2)));
  return p;
}

}  // namespace decode

std::uint32_t decode_context_limit(KernelSet kernels, KvDtype dtype, std::uint32_t head_dim) {
  if (!decode::takes(dtype, head_dim)) return std::numeric_limits<std::uint32_t>::max();
  return kernels == KernelSet::kPortable ? decode_portable_context_limit() : decode::kMaxContext;
}

std::size_t decode_attention_workspace(std::uint32_t max_rows, std::uint32_t q_heads, std::uint32_t kv_heads,
                                       std::uint32_t head_dim, std::uint32_t max_context) {
  using namespace decode;
  const std::size_t parts =
      std::size_t{max_rows} * kv_heads * groups_of(q_heads / kv_heads) * most_parts(max_context);
  const std::size_t ours =
      aligned(parts * kHeads * sizeof(float2)) + parts * kHeads * head_dim * sizeof(std::uint16_t);
  return std::max(ours,
                  decode_attention_portable_workspace(max_rows, q_heads, kv_heads, head_dim, max_context));
}

void decode_attention(const DecodeAttentionArgs& a, cudaStream_t stream) {
  const KvLayer& kv = a.in.kv;
  if (!decode::takes(kv.dtype, kv.head_dim)) {
    rope_store(a.in, stream);
    return attention_any(a.out, a.in.q, kv, a.in.rows, stream);
  }
  if (a.kernels == KernelSet::kPortable) return decode_attention_portable(a, stream);
  if (kv.head_dim == 64) return decode::launch_size<64>(decode::make_params(a), a.out.dtype, stream);
  decode::launch_size<128>(decode::make_params(a), a.out.dtype, stream);
}

}  // namespace lynx::cuda
