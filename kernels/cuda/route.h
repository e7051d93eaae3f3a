// Routing and remapping on the device: router logits in, plan out. Bit-identical to route_reference.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/core/result.h"
#include "kernels/cuda/device_plan.h"
#include "kernels/cuda/kernel_set.h"
#include "kernels/cuda/timeline.h"
#include "kernels/lynx/derived_policy.h"
#include "kernels/lynx/policy.h"

namespace lynx::cuda {

constexpr std::uint32_t kMaxRouteExperts = 512;
constexpr std::uint32_t kMaxRouteTopK = 32;
constexpr std::uint32_t kMaxRouteRows = 64;  // more rows are prefill: policy off alone

struct RouteArgs {
  const float* logits = nullptr;  // [B, N] f32, row stride N
  DevicePlan plan;                // plan.rows is B
  RouterShape shape;
  PolicyKind policy = PolicyKind::kOff;
  DerivedPolicy derived;                     // derive(shape, policy), on the host
  const std::uint32_t* live_rows = nullptr;  // [1] on the device: rows from there on are padding
  const std::uint8_t* exact = nullptr;       // [B] on the device or null; 1 = the row keeps its full top-k
  KernelSet kernels = KernelSet::kHopper;    // of route; route_prefill has one for all
  std::uint64_t* timeline = nullptr;         // [blocks, kRouteMarks] on the device, or null
};

// At start-up: the error names the field that these kernels do not cover.
Status check_route(const RouterShape& shape, PolicyKind policy = PolicyKind::kOff);

// One launch for B <= kMaxRouteRows. Throws std::runtime_error for a policy that check_route refuses.
void route(const RouteArgs& args, cudaStream_t stream);

// Any B, policy off (args.policy and exact are not looked at); two launches.
void route_prefill(const RouteArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
