// Routing and remapping of a decode batch in one launch: a cluster of up to eight blocks, a warp a row. The
// blocks meet twice, over distributed shared memory: once every row has voted (which experts are active), and
// once every row has chosen (where its pairs go in the transposed plan). Everything that is summed is an
// integer and every block computes the same sums, so the plan does not depend on the order of anything.
#include "kernels/cuda/route.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/route_place.cuh"

namespace lynx::cuda {
namespace {

__device__ void clear(const RouteArgs& args, RouteShared& s, std::uint32_t block) {
  for (std::uint32_t e = threadIdx.x; e < args.shape.experts; e += kRouteThreads) {
    s.votes[e] = 0;
    s.used[e] = 0;
    s.energy[e] = 0;
    if (block == 0) s.probability[e] = 0;
  }
  if (threadIdx.x < kActiveWords) s.routed[threadIdx.x] = 0;
  if (threadIdx.x == 0) s.voters = 0;
  if (block == 0)
    for (std::uint32_t i = threadIdx.x; i < args.shape.experts * digits_of(args); i += kRouteThreads)
      digits_in(args, s)[i] = 0;
  __syncthreads();
}

// What one row does not need at once, it does between arriving at a barrier of the cluster and waiting for
// it.
template <int V>
__global__ void __launch_bounds__(kRouteThreads, 1) route_kernel(const __grid_constant__ RouteArgs args) {
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
    atomicOr(&s.routed[0], 1U << row.lane);  // see choose_for; top_k is at most 32
  }
  cluster.barrier_arrive();
  if (row.votes) {
    if (!votes_by_mass(args.policy)) weigh_top(args, row, top, mass);
    if (!args.shape.norm_topk_prob)
      mass.all = args.shape.kind == RouterKind::kSigmoid
                     ? kMassOne
                     : mass.top + keys.sum_of_masses(args.shape.kind, mass.max);
  }
  cluster.barrier_wait();
  const std::uint32_t voters = count_votes(args, s, cluster);
  if (needs_fill(args, s, voters)) fill(args, s, cluster, row, top, mass.max, voters);

  const Choice choice = choose_for(args, s, row, keys, top);
  cluster.barrier_arrive();
  const float weight = write_row(args, s, cluster, row, mass, choice);
  cluster.barrier_wait();
  const std::uint32_t totals = place_experts(args, s, cluster);
  std::uint32_t routed = 0;
  if (block == 0 && threadIdx.x < kWarp) routed = count_routed(s, cluster);
  __syncwarp();
  cluster.barrier_arrive();  // this block reads no other's memory from here on
  write_pairs(args, s, row, choice.chosen, weight);
  cluster.barrier_wait();
  if (block == 0) write_totals(args, s, routed, totals);
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
