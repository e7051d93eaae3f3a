// Routing and remapping of a decode batch in one launch: a cluster of up to eight blocks, a warp a row. The
// blocks meet twice, over distributed shared memory: once every row has voted (which experts are active), and
// once every row has chosen (where its pairs go in the transposed plan). Everything that is summed is an
// integer and every block computes the same sums, so the plan does not depend on the order of anything.
#include "kernels/cuda/route.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/route_fill.cuh"
#include "kernels/cuda/route_policy.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {
namespace {

namespace cg = cooperative_groups;

struct Row {
  std::uint32_t index = 0;     // in the batch
  std::uint32_t in_block = 0;  // the warp
  std::uint32_t lane = 0;
  bool live = false;   // not padding
  bool votes = false;  // live and without a NaN
  bool exact = false;
  const float* logits = nullptr;
};

__device__ Row this_row(const RouteArgs& args, std::uint32_t block) {
  Row row;
  row.in_block = threadIdx.x / kWarp;
  row.lane = threadIdx.x % kWarp;
  row.index = block * kRowsPerBlock + row.in_block;
  row.live = row.index < live_count(args.live_rows, args.plan.rows);
  row.exact = row.live && args.exact != nullptr && args.exact[row.index] != 0;
  row.logits = args.logits + std::size_t{row.index} * args.shape.experts;
  return row;
}

// The row's exact top-k and its masses; and its votes into this block's words.
template <int V>
__device__ void cast_votes(const RouteArgs& args, RouteShared& s, const Row& row, RowKeys<V>& keys,
                           Ranked& top, RowMass& mass) {
  const std::uint32_t k = args.shape.top_k;
  take_ranked(keys, top, 0, k, row.lane);
  mass.max = key_value(__shfl_sync(kAllLanes, top.key, 0));
  const bool mine = row.lane < k;
  const float z = key_value(top.key);
  const std::uint32_t own = mine ? mass_of(args.shape.kind, z, mass.max) : 0;
  mass.top = sum_lanes(own);
  if (!args.shape.norm_topk_prob) {
    mass.all = args.shape.kind == RouterKind::kSigmoid
                   ? kMassOne
                   : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  }
  if (!mine) return;
  const VoteInput input{row.lane, z, mass.max, own, mass.top};
  const Vote cast = row.exact ? Vote::kKeep : vote(args.policy, input, args.shape, args.derived);
  const bool last = args.policy == PolicyKind::kLynx && vote_lynx(input, args.derived) == Vote::kLast;
  const std::uint32_t bit = 1U << row.in_block;
  atomicOr(&s.votes[top.expert], (cast == Vote::kKeep ? bit << kKeepField : 0) |
                                     (last ? bit << kLastField : 0) | bit << kRoutedField);
}

// Every block, for itself: A and the routed experts from the votes of all blocks.
__device__ std::uint32_t count_votes(const RouteArgs& args, RouteShared& s,
                                     const cg::cluster_group& cluster) {
  const std::uint32_t blocks = cluster.num_blocks();
  std::uint32_t voters = 0;
  for (std::uint32_t b = 0; b < blocks; ++b) voters += *cluster.map_shared_rank(&s.voters, b);
  for (std::uint32_t e = threadIdx.x; e < kActiveWords * 32; e += kRouteThreads) {
    std::uint32_t any = 0;
    std::uint32_t last = 0;
    if (e < args.shape.experts) {
      for (std::uint32_t b = 0; b < blocks; ++b) {
        const std::uint32_t word = *cluster.map_shared_rank(&s.votes[e], b);
        any |= word;
        last += __popc(word >> kLastField & 0xFFU);
      }
    }
    const bool keep = (any >> kKeepField & 0xFFU) != 0 || (voters > 0 && last == voters);
    const std::uint32_t active = __ballot_sync(kAllLanes, keep);
    const std::uint32_t routed = __ballot_sync(kAllLanes, (any >> kRoutedField & 0xFFU) != 0);
    if (threadIdx.x % kWarp == 0) {
      s.active[e / 32] = active;
      s.routed[e / 32] = routed;
    }
  }
  __syncthreads();
  return voters;
}

// Uniform over the cluster.
__device__ bool needs_fill(const RouteArgs& args, const RouteShared& s, std::uint32_t voters) {
  if (voters == 0) return false;
  if (fills_first(args.policy)) return true;
  return args.policy != PolicyKind::kTopKReduced && count_bits(s.active) < args.shape.top_k;
}

__device__ void fill(const RouteArgs& args, RouteShared& s, const cg::cluster_group& cluster, const Row& row,
                     const Ranked& top, float max, std::uint32_t voters) {
  RouteShared& sums = *cluster.map_shared_rank(&s, 0);
  if (row.votes) add_row(args, sums, row.logits, max, top, row.lane);
  cluster.sync();
  if (cluster.block_rank() == 0) choose_filled(args, s, voters);
  cluster.sync();
  if (threadIdx.x < kActiveWords) {
    const std::uint32_t word = sums.active[threadIdx.x];
    if (cluster.block_rank() != 0) s.active[threadIdx.x] = word;
  }
  __syncthreads();
}

// The row's experts: what it keeps of its top-k, then the first of the other active ones. Returns how many it
// keeps.
template <int V>
__device__ std::uint32_t choose(RouteShared& s, const Row& row, RowKeys<V>& keys, const Ranked& top,
                                std::uint32_t slots, Ranked& chosen) {
  const bool keeps = top.key != 0 && has_bit(s.active, top.expert);
  const std::uint32_t kept_lanes = __ballot_sync(kAllLanes, keeps);
  const std::uint32_t kept = min(static_cast<std::uint32_t>(__popc(kept_lanes)), slots);
  const std::uint32_t place = __popc(kept_lanes & lanes_below(row.lane));
  if (keeps) {
    s.chosen[row.in_block][place] = top.expert;
    s.chosen_key[row.in_block][place] = top.key;
  }
  __syncwarp();
  if (row.lane < kept) chosen = {s.chosen[row.in_block][row.lane], s.chosen_key[row.in_block][row.lane]};
  if (kept < slots) {
    keys.keep_only(s.active, row.lane);
    take_ranked(keys, chosen, kept, slots, row.lane);
  }
  return kept;
}

// A row with a NaN: some k experts, so that shapes hold, and its own output alone is lost.
__device__ void choose_broken(const RouteArgs& args, const Row& row, Ranked& chosen, float& weight) {
  if (row.lane >= args.shape.top_k) return;
  chosen.expert = row.lane;
  weight = __fdiv_rn(1.0F, static_cast<float>(args.shape.top_k));
}

// The row's part of the plan and of block 0's statistics. Returns the weight of lane's slot.
template <int V>
__device__ float route_row(const RouteArgs& args, RouteShared& s, const cg::cluster_group& cluster,
                           const Row& row, RowKeys<V>& keys, const Ranked& top, const RowMass& mass,
                           Ranked& chosen) {
  const std::uint32_t k = args.shape.top_k;
  float weight = 0;
  std::uint32_t retained = 1U << 24;
  std::uint32_t remapped = 0;
  if (row.votes) {
    const std::uint32_t slots = args.policy == PolicyKind::kTopKReduced && !row.exact ? args.derived.keep : k;
    const std::uint32_t kept = choose(s, row, keys, top, slots, chosen);
    weight = weigh_lane(args.shape, mass, chosen, slots, kept, row.lane, retained);
    if (row.lane >= slots) weight = 0;
    remapped = slots - kept;
  } else if (row.live) {
    choose_broken(args, row, chosen, weight);
  }
  if (row.index < args.plan.rows && row.lane < k) {
    args.plan.expert_of[row.index * k + row.lane] = chosen.expert;
    args.plan.weight_of[row.index * k + row.lane] = weight;
  }
  if (row.lane == 0) {
    *cluster.map_shared_rank(&s.retained[row.index], 0) = row.live ? retained : 0;
    *cluster.map_shared_rank(&s.remapped[row.index], 0) = remapped;
  }
  if (chosen.expert != ExpertPlan::kNoExpert) atomicOr(&s.used[chosen.expert], 1U << row.in_block);
  return weight;
}

// Every block, for itself: where the pairs of each expert begin. Block 0 writes the list of active experts.
// Returns A and the number of pairs, packed as the scan packs them.
__device__ std::uint32_t place_experts(const RouteArgs& args, RouteShared& s,
                                       const cg::cluster_group& cluster) {
  const std::uint32_t blocks = cluster.num_blocks();
  std::uint32_t before = 0;  // pairs in the low half, active experts in the high half
  for (std::uint32_t first = 0; first < args.shape.experts; first += kRouteThreads) {
    const std::uint32_t e = first + threadIdx.x;
    std::uint64_t rows = 0;
    if (e < args.shape.experts)
      for (std::uint32_t b = 0; b < blocks; ++b)
        rows |= std::uint64_t{*cluster.map_shared_rank(&s.used[e], b)} << (b * kRowsPerBlock);
    const std::uint32_t own = rows == 0 ? 0 : 1U << 16 | static_cast<std::uint32_t>(__popcll(rows));
    const std::uint32_t lane = threadIdx.x % kWarp;
    std::uint32_t sum = own;
#pragma unroll
    for (std::uint32_t step = 1; step < kWarp; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == kWarp - 1) s.scan[threadIdx.x / kWarp] = sum;
    __syncthreads();
    std::uint32_t place = before + sum - own;
    for (std::uint32_t w = 0; w < kRowsPerBlock; ++w) {
      place += w < threadIdx.x / kWarp ? s.scan[w] : 0;
      before += s.scan[w];
    }
    if (e < args.shape.experts) {
      s.rows_of[e] = rows;
      s.start[e] = place & 0xFFFFU;
      if (own != 0 && cluster.block_rank() == 0) {
        args.plan.active[place >> 16] = e;
        args.plan.offsets[place >> 16] = place & 0xFFFFU;
      }
    }
    __syncthreads();
  }
  return before;
}

__device__ void write_pairs(const RouteArgs& args, const RouteShared& s, const Row& row, const Ranked& chosen,
                            float weight) {
  if (chosen.expert == ExpertPlan::kNoExpert) return;
  const std::uint64_t rows_before = s.rows_of[chosen.expert] & ((std::uint64_t{1} << row.index) - 1);
  const std::uint32_t place = s.start[chosen.expert] + static_cast<std::uint32_t>(__popcll(rows_before));
  args.plan.row_of[place] = row.index;
  args.plan.slot_of[place] = row.lane;
  args.plan.pair_weight[place] = weight;
}

__device__ void write_totals(const RouteArgs& args, const RouteShared& s, std::uint32_t totals) {
  if (threadIdx.x >= kWarp) return;
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  std::uint64_t sum = 0;
  std::uint32_t remapped = 0;
  std::uint32_t least = 1U << 24;
  for (std::uint32_t r = threadIdx.x; r < live; r += kWarp) {
    sum += s.retained[r];
    least = min(least, s.retained[r]);
    remapped += s.remapped[r];
  }
  sum = sum_lanes(sum);
  least = __reduce_min_sync(kAllLanes, least);
  remapped = __reduce_add_sync(kAllLanes, remapped);
  if (threadIdx.x != 0) return;
  const std::uint32_t active = totals >> 16;
  *args.plan.count = active;
  args.plan.offsets[active] = totals & 0xFFFFU;
  *args.plan.stats = {.routed_experts = count_bits(s.routed),
                      .activated_experts = active,
                      .assignments = live * args.shape.top_k,
                      .remapped = remapped,
                      .retained_q24_sum = sum,
                      .retained_q24_min = least,
                      .reserved = 0};
}

__device__ void clear(const RouteArgs& args, RouteShared& s, std::uint32_t block) {
  for (std::uint32_t e = threadIdx.x; e < args.shape.experts; e += kRouteThreads) {
    s.votes[e] = 0;
    s.used[e] = 0;
    if (block == 0) s.probability[e] = 0;
  }
  if (threadIdx.x == 0) s.voters = 0;
  if (block == 0 && args.policy == PolicyKind::kLynx)
    for (std::uint32_t i = threadIdx.x; i < args.shape.experts * (args.derived.bins + 1); i += kRouteThreads)
      s.digits[i] = 0;
  __syncthreads();
}

template <int V>
__global__ void __launch_bounds__(kRouteThreads) route_kernel(const __grid_constant__ RouteArgs args) {
  extern __shared__ __align__(16) std::byte memory[];
  RouteShared& s = *reinterpret_cast<RouteShared*>(memory);
  const cg::cluster_group cluster = cg::this_cluster();
  const std::uint32_t block = cluster.block_rank();
  release_dependents();
  clear(args, s, block);
  grid_dependency_wait();

  Row row = this_row(args, block);
  RowKeys<V> keys;
  Ranked top;
  RowMass mass;
  if (row.live) row.votes = keys.load(row.logits, args.shape.experts, row.lane);
  if (row.votes) {
    if (row.lane == 0) atomicAdd(&s.voters, 1U);
    cast_votes(args, s, row, keys, top, mass);
  } else if (row.live && row.lane < args.shape.top_k) {
    atomicOr(&s.votes[row.lane], 1U << row.in_block << kRoutedField);  // see choose_broken
  }
  cluster.sync();
  const std::uint32_t voters = count_votes(args, s, cluster);
  if (needs_fill(args, s, voters)) fill(args, s, cluster, row, top, mass.max, voters);

  Ranked chosen;
  const float weight = route_row(args, s, cluster, row, keys, top, mass, chosen);
  cluster.sync();
  const std::uint32_t totals = place_experts(args, s, cluster);
  cluster.barrier_arrive();  // this block reads no other's memory from here on
  write_pairs(args, s, row, chosen, weight);
  if (block == 0) write_totals(args, s, totals);
  cluster.barrier_wait();
}

template <int V>
void launch_route(const RouteArgs& args, cudaStream_t stream) {
  unsigned blocks = 1;
  while (blocks * kRowsPerBlock < args.plan.rows) blocks *= 2;
  const Shape shape{dim3(blocks), dim3(kRouteThreads), route_shared_bytes(args), blocks};
  launch("route", route_kernel<V>, shape, stream, Overlap::kPrevious, args);
}

}  // namespace

void route(const RouteArgs& args, cudaStream_t stream) {
  const std::uint32_t words = (args.shape.experts + 31) / 32;
  if (words <= 2) return launch_route<2>(args, stream);
  if (words <= 4) return launch_route<4>(args, stream);
  if (words <= 8) return launch_route<8>(args, stream);
  launch_route<16>(args, stream);
}

}  // namespace lynx::cuda
