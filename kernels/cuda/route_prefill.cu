// Routing of many rows, policy off: a warp a row, then a block an expert that gathers its rows in rising
// order.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/route.h"
#include "kernels/cuda/route_row.cuh"

namespace lynx::cuda {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / kWarp;
constexpr std::uint32_t kWords = kMaxRouteExperts / 32;

// Exact top-k and weights of a row.
template <int V>
__global__ void __launch_bounds__(kThreads) route_rows_kernel(const __grid_constant__ RouteArgs args) {
  grid_dependency_wait();
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t index = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (index >= args.plan.rows) return;
  const std::uint32_t k = args.shape.top_k;
  Ranked top;
  float weight = 0;
  if (index < live_count(args.live_rows, args.plan.rows)) {
    RowKeys<V> keys;
    if (keys.load(args.logits + std::size_t{index} * args.shape.experts, args.shape.experts, lane)) {
      take_ranked(keys, top, 0, k, lane);
      RowMass mass;
      mass.max = key_value(__shfl_sync(kAllLanes, top.key, 0));
      mass.top = sum_lanes(lane < k ? mass_of(args.shape.kind, key_value(top.key), mass.max) : 0);
      mass.all = args.shape.kind == RouterKind::kSigmoid
                     ? kMassOne
                     : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
      std::uint32_t retained;  // all of it
      weight = weigh_lane(args.shape, WeightRule::kOwn, mass, top, k, k, lane, retained);
    } else if (lane < k) {  // a NaN: some k experts, so that shapes hold
      top.expert = lane;
      weight = __fdiv_rn(1.0F, static_cast<float>(k));
    }
  }
  if (lane >= k) return;
  args.plan.expert_of[std::size_t{index} * k + lane] = top.expert;
  args.plan.weight_of[std::size_t{index} * k + lane] = weight;
}

struct Gathered {
  std::uint32_t present[kWords];  // experts that some row takes
  std::uint32_t before;           // pairs of experts with a smaller id
  std::uint32_t all;              // pairs
  std::uint32_t warp_count[kWarps];
};

__device__ void count_pairs(const RouteArgs& args, Gathered& s, std::uint32_t pairs) {
  if (threadIdx.x < kWords) s.present[threadIdx.x] = 0;
  if (threadIdx.x == 0) s.before = s.all = 0;
  __syncthreads();
  std::uint32_t before = 0;
  std::uint32_t all = 0;
  for (std::uint32_t i = threadIdx.x; i < pairs; i += kThreads) {
    const std::uint32_t e = args.plan.expert_of[i];
    if (e == ExpertPlan::kNoExpert) continue;
    before += e < blockIdx.x ? 1 : 0;
    ++all;
    const volatile std::uint32_t& present = s.present[e / 32];  // others set its bits meanwhile
    if (((present >> (e % 32)) & 1) == 0) atomicOr(&s.present[e / 32], 1U << (e % 32));
  }
  before = __reduce_add_sync(kAllLanes, before);
  all = __reduce_add_sync(kAllLanes, all);
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&s.before, before);
    atomicAdd(&s.all, all);
  }
  __syncthreads();
}

// This expert's pairs, in the order of the rows.
__device__ void place_pairs(const RouteArgs& args, Gathered& s, std::uint32_t pairs) {
  const std::uint32_t k = args.shape.top_k;
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t place = s.before;
  for (std::uint32_t first = 0; first < pairs; first += kThreads) {
    const std::uint32_t i = first + threadIdx.x;
    const bool mine = i < pairs && args.plan.expert_of[i] == blockIdx.x;
    const std::uint32_t lanes = __ballot_sync(kAllLanes, mine);
    if (lane == 0) s.warp_count[threadIdx.x / kWarp] = __popc(lanes);
    __syncthreads();
    std::uint32_t at = place + __popc(lanes & lanes_below(lane));
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      at += w < threadIdx.x / kWarp ? s.warp_count[w] : 0;
      place += s.warp_count[w];
    }
    if (mine) {
      args.plan.row_of[at] = i / k;
      args.plan.slot_of[at] = i % k;
      args.plan.pair_weight[at] = args.plan.weight_of[i];
    }
    __syncthreads();
  }
}

// Block e gathers expert e; block 0 writes the totals as well.
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ RouteArgs args) {
  __shared__ Gathered s;
  grid_dependency_wait();
  const std::uint32_t pairs = args.plan.rows * args.shape.top_k;
  count_pairs(args, s, pairs);
  const std::uint32_t e = blockIdx.x;
  if (((s.present[e / 32] >> (e % 32)) & 1) != 0) {
    if (threadIdx.x == 0) {
      std::uint32_t index = __popc(s.present[e / 32] & lanes_below(e % 32));
      for (std::uint32_t w = 0; w < e / 32; ++w) index += __popc(s.present[w]);
      args.plan.active[index] = e;
      args.plan.offsets[index] = s.before;
    }
    place_pairs(args, s, pairs);
  }
  if (e != 0 || threadIdx.x != 0) return;
  std::uint32_t active = 0;
  for (std::uint32_t w = 0; w < kWords; ++w) active += __popc(s.present[w]);
  const std::uint32_t live = live_count(args.live_rows, args.plan.rows);
  *args.plan.count = active;
  args.plan.offsets[active] = s.all;
  *args.plan.stats = {.routed_experts = active,
                      .activated_experts = active,
                      .assignments = live * args.shape.top_k,
                      .remapped = 0,
                      .retained_q24_sum = std::uint64_t{live} << 24,
                      .retained_q24_min = kAllRetained,
                      .reserved = 0};
}

template <int V>
void launch_rows(const RouteArgs& args, cudaStream_t stream) {
  const Shape shape{dim3((args.plan.rows + kWarps - 1) / kWarps), dim3(kThreads)};
  launch("route prefill", route_rows_kernel<V>, shape, stream, Overlap::kPrevious, args);
}

}  // namespace

void route_prefill(const RouteArgs& args, cudaStream_t stream) {
  const std::uint32_t words = (args.shape.experts + 31) / 32;
  if (words <= 4)
    launch_rows<4>(args, stream);
  else
    launch_rows<16>(args, stream);
  launch("route prefill: gather", gather_kernel, Shape{dim3(args.shape.experts), dim3(kThreads)}, stream,
         Overlap::kPrevious, args);
}

}  // namespace lynx::cuda
