// See attention_block.h. Blocks come in clusters of four, one a multiprocessor; all are resident at once,
// since they meet. Shared memory of a block: a ring of weights, keys and values; its k of the rows and the
// sums of its tiles, which qkv and o have at different times in the same place: nobody loads rows of o or
// sends a sum before all have met, with the sums of qkv written.
//
// Bytes per launch: the weights of qkv and o, and each row's keys and values, once.
#include "kernels/cuda/attention_block.h"

#include "kernels/cuda/attention_block_plan.cuh"
#include "kernels/cuda/decode_params.h"
#include "kernels/cuda/decode_rows.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace lynx::cuda {
namespace block {
namespace {

using decode::kProducer;

struct Params {
  float* hidden;
  std::size_t hidden_stride;
  const float* norm_weight;
  float eps;
  Product qkv, o;
  float* qkv_rows;
  std::size_t qkv_stride;
  decode::Params attention;
  std::uint32_t* meetings;
  LongWaitNote* long_wait;
  std::uint64_t* timeline;
  unsigned stages;                  // of the ring
  unsigned qkv_x_bytes, o_x_bytes;  // of either product's rows in shared memory; its sums follow
};

// The one order in which all of a block's weights, keys and values come. Keys wait until the block has told
// the others of its q, k and v, o's weights until it has told them of its parts: what all blocks wait for
// then travels without bulk copies beside it, which gains more than memory loses. So do the rows where there
// are more than 16, for which qkv's weights wait from their second stage on; fewer come soon enough.
template <unsigned kRowTiles>
__device__ void stream(const Params& p, const Ring& ring, Reached& reached) {
  const std::uint64_t policy = evict_first_policy();
  RingFiller filler(ring);
  stream_weights(p.qkv, Share(p.qkv), filler, policy, [&reached](unsigned stage) {
    if (kRowTiles > 1 && stage > 0) wait(reached.rows, 0);
  });
  decode::stream_keys(p.attention, filler, policy, [&reached] { wait(reached.qkv, 0); });
  wait(reached.parts, 0);
  stream_weights(p.o, Share(p.o), filler, policy, [](unsigned) {});
}

template <unsigned kRowTiles, unsigned kD>
__device__ void compute(const Params& p, const Ring& ring, Static<kD>& shared, uint4* x) {
  GridMeetings grid(p.meetings, kAttentionBlockMeetings, p.long_wait);
  std::uint64_t* const record = record_of_block<BlockMark>(p.timeline, threadIdx.x == 0);
  const auto mark = [record](BlockMark at) {
    if (record != nullptr) record[static_cast<unsigned>(at)] = global_nanoseconds();
  };
  const auto tell = [&grid](std::uint64_t& told) {  // and hear all others
    grid.arrive<kComputeBarrier>(kComputeThreads);
    if (threadIdx.x == 0) arrive(told);
    grid.await<kComputeBarrier>(kComputeThreads);
  };
  StageCursor at;
  mark(BlockMark::kStart);
  // What can be asked for before the rows are there, then the rows, then what needs no row.
  const decode::Contexts contexts(p.attention);
  const Share qkv(p.qkv);
  const NormWeights norm(p.norm_weight, qkv);
  grid_dependency_wait();
  mark(BlockMark::kReady);
  HiddenRows<kRowTiles> rows(p.hidden, p.hidden_stride, qkv, p.attention.rows);
  if (blockIdx.x == 0 && threadIdx.x == 0) grid.begin();
  const unsigned live = contexts.live;
  const decode::TaskWalk tasks(p.attention, contexts);
  shared.heads.fill(p.attention, tasks.row(), contexts);
  const decode::MergeWalk<kD / 16> merges(p.attention, contexts, kWarps);

  store_normed_rows<kRowTiles>(x, shared.norm, shared.squares, qkv, rows, norm, p.eps, p.qkv.k, [&shared] {
    if (kRowTiles > 1 && threadIdx.x == 0) arrive(shared.reached.rows);
  });
  mark(BlockMark::kNormed);
  float* const qkv_sums = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(x) + p.qkv_x_bytes);
  multiply_share<kRowTiles>(p.qkv, qkv, ring, at, x, shared.qkv_sums, qkv_sums);
  mark(BlockMark::kMultiplied);
  shared.qkv_sums.await();
  add_parts<kRowTiles>(p.qkv, qkv, qkv_sums, live, [&](unsigned row, unsigned output, float4 sum) {
    *reinterpret_cast<float4*>(p.qkv_rows + row * p.qkv_stride + output) = sum;
  });
  mark(BlockMark::kAdded);
  tell(shared.reached.qkv);
  mark(BlockMark::kMet);

  decode::attend_parts<kD>(p.attention, shared.heads, tasks, ring, at);
  mark(BlockMark::kAttended);
  tell(shared.reached.parts);
  mark(BlockMark::kAllAttended);
  decode::merge_rows<kD, __nv_bfloat16>(p.attention, merges);
  mark(BlockMark::kMerged);
  grid.meet<kComputeBarrier>(kComputeThreads);
  mark(BlockMark::kAllMerged);

  const Share o(p.o);
  load_rows<kRowTiles>(x, o, reinterpret_cast<const std::uint16_t*>(p.attention.out), p.attention.out_stride,
                       live);
  mark(BlockMark::kLoaded);
  float* const o_sums = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(x) + p.o_x_bytes);
  multiply_share<kRowTiles>(p.o, o, ring, at, x, shared.o_sums, o_sums);
  mark(BlockMark::kProjected);
  shared.o_sums.await();
  add_parts<kRowTiles>(p.o, o, o_sums, live, [&](unsigned row, unsigned output, float4 sum) {
    auto* to = reinterpret_cast<float4*>(p.hidden + row * p.hidden_stride + output);
    const float4 old = *to;
    *to = {sum.x + old.x, sum.y + old.y, sum.z + old.z, sum.w + old.w};
  });
  mark(BlockMark::kEnd);
}

template <unsigned kRowTiles, unsigned kD>
__global__ void __launch_bounds__(kThreads, 1) attention_block_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) std::byte memory[];
  __shared__ Static<kD> shared;
  release_dependents();
  if (threadIdx.x == 0) {
    shared.reached.init();
    shared.ring.init(kWarps);
    shared.squares.expect(p.qkv.k / kPartK * kRowTiles * 16 * sizeof(float));
    shared.qkv_sums.expect(bytes_that_come<kRowTiles>(p.qkv, Share(p.qkv)));
    shared.o_sums.expect(bytes_that_come<kRowTiles>(p.o, Share(p.o)));
  }
  cluster_arrive();
  cluster_wait();
  const Ring ring = {memory, p.stages, kProductStage, shared.ring};
  if (warp_index() == kProducer) return stream<kRowTiles>(p, ring, shared.reached);
  compute<kRowTiles, kD>(p, ring, shared, reinterpret_cast<uint4*>(memory + p.stages * kProductStage));
}

Product qkv_of(const AttentionBlockArgs& a) { return {a.qkv, a.qkv_rows.cols, a.x.cols}; }
Product o_of(const AttentionBlockArgs& a) { return {a.o, a.x.cols, a.attention.out.cols}; }

template <typename Use>
auto with_kernel(const AttentionBlockArgs& a, const Use& use) {
  const bool small = a.attention.in.kv.head_dim == 64;
  if (row_tiles_of(a.x.rows) == 1)
    return small ? use(attention_block_kernel<1, 64>) : use(attention_block_kernel<1, 128>);
  return small ? use(attention_block_kernel<2, 64>) : use(attention_block_kernel<2, 128>);
}

Plan plan_of(const AttentionBlockArgs& a) {
  if (shares_multiprocessors() || a.attention.kernels != KernelSet::kHopper || a.x.rows > kMaxRows ||
      !decode::takes(a.attention.in.kv.dtype, a.attention.in.kv.head_dim) ||
      a.attention.out.dtype != Dtype::kBf16 || !takes_product(qkv_of(a)) || !takes_product(o_of(a)))
    return {};
  return with_kernel(
      a, [&](auto kernel) { return make_plan(kernel, qkv_of(a), o_of(a), row_tiles_of(a.x.rows)); });
}

}  // namespace
}  // namespace block

bool attention_block_takes(const AttentionBlockArgs& a) { return block::plan_of(a).blocks > 0; }

void attention_block(const AttentionBlockArgs& a, cudaStream_t stream) {
  using namespace block;
  const Plan plan = plan_of(a);
  if (plan.blocks == 0) return attention_block_apart(a, stream);
  const Params params = {.hidden = reinterpret_cast<float*>(a.x.data),
                         .hidden_stride = a.x.stride,
                         .norm_weight = reinterpret_cast<const float*>(a.norm_weight.data),
                         .eps = a.eps,
                         .qkv = qkv_of(a),
                         .o = o_of(a),
                         .qkv_rows = reinterpret_cast<float*>(a.qkv_rows.data),
                         .qkv_stride = a.qkv_rows.stride,
                         .attention = decode::make_params(a.attention),
                         .meetings = a.meetings,
                         .long_wait = a.long_wait,
                         .timeline = a.timeline,
                         .stages = plan.stages,
                         .qkv_x_bytes = plan.qkv_x_bytes,
                         .o_x_bytes = plan.o_x_bytes};
  const Shape shape = {.grid = {plan.blocks, 1, 1},
                       .block = {kThreads, 1, 1},
                       .shared_bytes = plan.shared_bytes,
                       .cluster = kCluster};
  with_kernel(
      a, [&](auto kernel) { launch("attention_block", kernel, shape, stream, Overlap::kPrevious, params); });
}

void attention_block_apart(const AttentionBlockArgs& a, cudaStream_t stream) {
  const std::uint32_t* live = a.attention.in.rows.live_rows;
  const KernelSet kernels = a.attention.kernels;
  rms_norm({.out = a.normed, .x = a.x, .weight = a.norm_weight, .eps = a.eps, .live_rows = live}, stream);
  skinny_gemm({.out = a.qkv_rows,
               .x = a.normed,
               .weights = a.qkv,
               .add = false,
               .live_rows = live,
               .kernels = kernels},
              stream);
  decode_attention(a.attention, stream);
  skinny_gemm(
      {.out = a.x, .x = a.attention.out, .weights = a.o, .add = true, .live_rows = live, .kernels = kernels},
      stream);
}

}  // namespace lynx::cuda
