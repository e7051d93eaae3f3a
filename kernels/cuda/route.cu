// Routing and remapping of a decode batch in one launch: a cluster of up to four blocks, a warp a row. The
// blocks hear from one another twice, over distributed shared memory: once every row has voted (which experts
// are active), and once every row has chosen (where its pairs go in the transposed plan). Everything that is
// summed is an integer and every block computes the same sums, so the plan does not depend on the order of
// anything.
#include "kernels/cuda/route.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/route_block.cuh"

namespace lynx::cuda {
namespace {

template <int V, bool kAlone>
__global__ void __launch_bounds__(kRouteThreads, 1) route_kernel(const __grid_constant__ RouteArgs args) {
  extern __shared__ __align__(16) std::byte memory[];
  RouteShared& s = *reinterpret_cast<RouteShared*>(memory);
  mark_route(args, RouteMark::kStart);
  release_dependents();
  const std::uint32_t block = Blocks<kAlone>().rank();
  const Row row = this_row(args, block);
  clear_votes(args, s, block);
  const Post<kAlone> post(args, s);
  post.open();
  grid_dependency_wait();
  mark_route(args, RouteMark::kReady);
  route_block<V, kAlone>(args, s, post, row);
  mark_route(args, RouteMark::kEnd);
}

template <int V>
void launch_route(const RouteArgs& args, cudaStream_t stream) {
  const unsigned blocks = route_blocks(args.plan.rows);
  const Shape shape{dim3(blocks), dim3(kRouteThreads), route_bytes(args), blocks};
  launch("route", blocks == 1 ? route_kernel<V, true> : route_kernel<V, false>, shape, stream,
         Overlap::kPrevious, args);
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
