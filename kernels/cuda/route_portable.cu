// Routing and remapping of a decode batch by one plain block: a warp takes rows in turn, and what the rows
// say meets in shared memory. The same steps as route.cu, the same integers, so the same plan:
// route_reference's, bit for bit. See route_portable.cuh for what one row does.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/route_portable.cuh"
#include "kernels/cuda/route_portable_fill.cuh"

namespace lynx::cuda {
namespace {

using namespace portable;

__device__ void clear(RouteShared& s) {
  for (std::uint32_t e = threadIdx.x; e < kMaxRouteExperts; e += kThreads) {
    s.last[e] = s.energy[e] = 0;
    s.used[e] = s.probability[e] = 0;
  }
  if (threadIdx.x < kWords) s.active[threadIdx.x] = s.routed[threadIdx.x] = s.brought[threadIdx.x] = 0;
  if (threadIdx.x == 0) s.voters = 0;
  __syncthreads();
}

// A thread an expert: those that the rows' votes together keep.
__device__ void count_votes(const RouteArgs& args, RouteShared& s) {
  const std::uint32_t e = threadIdx.x;
  bool stays = false;
  if (e < args.shape.experts) {
    if (args.policy == PolicyKind::kEnergy && s.voters > 1)
      stays = stays_by_energy(s.energy[e], s.voters, args.shape.experts, args.derived);
    else
      stays = s.last[e] != 0 && s.last[e] == s.voters;
  }
  const std::uint32_t word = __ballot_sync(kAllLanes, stays);
  if (e % kWarp == 0 && e / kWarp < kWords) s.active[e / kWarp] |= word;
  __syncthreads();
}

// energy with k = 1: all rows are judged before any of them brings its first.
template <int V>
__device__ void serve_rows(const RouteArgs& args, RouteShared& s) {
  for_each_row(args, [&](const Row& row) { serve<V>(args, s, row); });
  __syncthreads();
  if (threadIdx.x < kWords) s.active[threadIdx.x] |= s.brought[threadIdx.x];
  __syncthreads();
}

// A thread an expert: the list of active ones, and where the pairs of each begin.
__device__ void place_experts(const RouteArgs& args, RouteShared& s) {
  const DevicePlan& plan = args.plan;
  const std::uint32_t e = threadIdx.x;
  const std::uint32_t lane = e % kWarp;
  const std::uint32_t pairs = e < args.shape.experts ? __popcll(s.used[e]) : 0;
  // Pairs in the low half, experts in the high half: one scan for both.
  const std::uint32_t own = pairs == 0 ? 0 : 1U << 16 | pairs;
  const std::uint32_t sum = static_cast<std::uint32_t>(sum_before(own, lane)) + own;
  if (lane == kWarp - 1) s.scan[e / kWarp] = sum;
  __syncthreads();
  std::uint32_t before = sum - own;
  std::uint32_t all = 0;
  for (std::uint32_t w = 0; w < kWarps; ++w) {
    before += w < e / kWarp ? s.scan[w] : 0;
    all += s.scan[w];
  }
  if (pairs != 0) {
    s.start[e] = before & 0xFFFFU;
    plan.active[before >> 16] = e;
    plan.offsets[before >> 16] = before & 0xFFFFU;
  }
  if (e == 0) {
    *plan.count = all >> 16;
    plan.offsets[all >> 16] = all & 0xFFFFU;
    s.activated = all >> 16;
  }
  __syncthreads();
}

// One warp.
__device__ void write_totals(const RouteArgs& args, const RouteShared& s) {
  const std::uint32_t lane = threadIdx.x;
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  std::uint64_t sum = 0;
  std::uint32_t remapped = 0;
  std::uint32_t least = kAllRetained;
  for (std::uint32_t r = lane; r < live; r += kWarp) {
    sum += s.rows[r].retained_q24;
    least = min(least, s.rows[r].retained_q24);
    remapped += s.rows[r].remapped;
    args.plan.row_stats[r] = s.rows[r];
  }
  const std::uint32_t routed =
      __reduce_add_sync(kAllLanes, lane < kWords ? static_cast<std::uint32_t>(__popc(s.routed[lane])) : 0U);
  sum = sum_lanes(sum);
  least = __reduce_min_sync(kAllLanes, least);
  remapped = __reduce_add_sync(kAllLanes, remapped);
  if (lane != 0) return;
  *args.plan.stats = {.routed_experts = routed,
                      .activated_experts = s.activated,
                      .assignments = live * args.shape.top_k,
                      .remapped = remapped,
                      .retained_q24_sum = sum,
                      .retained_q24_min = least,
                      .reserved = 0};
}

template <int V>
__global__ void __launch_bounds__(kThreads, 1) route_kernel(const __grid_constant__ RouteArgs args) {
  extern __shared__ __align__(16) std::byte memory[];
  RouteShared& s = *reinterpret_cast<RouteShared*>(memory);
  grid_dependency_wait();
  clear(s);
  for_each_row(args, [&](const Row& row) { cast_votes<V>(args, s, row); });
  __syncthreads();
  count_votes(args, s);
  if (votes_by_margin(args.policy, args.shape)) serve_rows<V>(args, s);
  if (needs_fill(args, s)) fill(args, s);
  for_each_row(args, [&](const Row& row) { choose<V>(args, s, row); });
  __syncthreads();
  place_experts(args, s);
  for_each_row(args, [&](const Row& row) { write_pair(args, s, row); });
  if (threadIdx.x < kWarp) write_totals(args, s);
}

}  // namespace

void route_portable(const RouteArgs& args, cudaStream_t stream) {
  const auto kernel = args.shape.experts <= 4 * kWarp ? route_kernel<4> : route_kernel<16>;
  const Shape shape{.grid = dim3(1), .block = dim3(kThreads), .shared_bytes = shared_bytes(args)};
  launch("route_portable", kernel, shape, stream, Overlap::kPrevious, args);
}

}  // namespace lynx::cuda
