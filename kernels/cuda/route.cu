// Routing and remapping of a decode batch in one launch: a cluster of up to four blocks, a warp a row and a
// thread an expert. The blocks hear from one another over distributed shared memory: once every row has voted
// (which experts are active, and which of its exact top-k each row keeps), and, if some row has lost any,
// once every row has chosen others for them. Everything that is summed is an integer and every block computes
// the same sums, so the plan does not depend on the order of anything.
#include "kernels/cuda/route.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/route_block.cuh"

namespace lynx::cuda {
namespace {

// What is known of most launches, so that their kernels have no instructions for anything else: each is
// fetched from afar, and run once.
enum class Known { kNothing, kOff, kLynx };

__host__ __device__ inline bool holds(Known known, const RouteArgs& args) {
  if (known == Known::kNothing) return true;
  return args.policy == (known == Known::kOff ? PolicyKind::kOff : PolicyKind::kLynx) &&
         args.timeline == nullptr;
}

template <int V, bool kAlone>
__device__ inline void route_as(const RouteArgs& args, const RouteArgs& whole, RouteShared& s) {
  mark_route(args, RouteMark::kStart);
  release_dependents();
  const std::uint32_t block = Blocks<kAlone>().rank();
  const Row row = this_row(args, block);
  clear_votes<V>(args, s, block);
  Post<kAlone> post(args, s);
  post.open();
  grid_dependency_wait();
  mark_route(args, RouteMark::kReady);
  route_block<V>(args, whole, s, post, row);
  mark_route(args, RouteMark::kEnd);
}

template <int V, bool kAlone, Known kKnown>
__global__ void __launch_bounds__(kRouteThreads<V>, 1) route_kernel(const __grid_constant__ RouteArgs args) {
  extern __shared__ __align__(16) std::byte memory[];
  RouteShared& s = *reinterpret_cast<RouteShared*>(memory);
  if constexpr (kKnown == Known::kNothing) {
    route_as<V, kAlone>(args, args, s);
  } else {
    RouteArgs known = args;
    known.policy = kKnown == Known::kOff ? PolicyKind::kOff : PolicyKind::kLynx;
    known.timeline = nullptr;
    route_as<V, kAlone>(known, args, s);
  }
}

template <int V, Known kKnown>
bool launch_if(const RouteArgs& args, cudaStream_t stream) {
  if (!holds(kKnown, args)) return false;
  const unsigned blocks = route_blocks(args.plan.rows);
  const Shape shape{dim3(blocks), dim3(kRouteThreads<V>), route_bytes(args), blocks};
  launch("route", blocks == 1 ? route_kernel<V, true, kKnown> : route_kernel<V, false, kKnown>, shape, stream,
         Overlap::kPrevious, args);
  return true;
}

template <int V>
void launch_route(const RouteArgs& args, cudaStream_t stream) {
  if (launch_if<V, Known::kLynx>(args, stream) || launch_if<V, Known::kOff>(args, stream)) return;
  launch_if<V, Known::kNothing>(args, stream);
}

}  // namespace

void route(const RouteArgs& args, cudaStream_t stream) {
  if (const Status status = check_route(args.shape, args.policy); !status.ok())
    throw std::runtime_error("routing on the device: " + status.error().message);
  if (args.kernels == KernelSet::kPortable) return route_portable(args, stream);
  const std::uint32_t words = (args.shape.experts + 31) / 32;
  if (words <= 2) return launch_route<2>(args, stream);
  if (words <= 4) return launch_route<4>(args, stream);
  if (words <= 8) return launch_route<8>(args, stream);
  launch_route<16>(args, stream);
}

}  // namespace lynx::cuda
