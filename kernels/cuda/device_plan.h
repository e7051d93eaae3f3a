// An expert plan in device memory: kernels/lynx/policy.h's ExpertPlan, written by route() and read by the
// expert kernels. A view: whoever allocated the memory owns it. B rows of the bucket, k slots, N experts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lynx/policy.h"

namespace lynx::cuda {

// What a row retains of the probability of its exact top-k, in units of 2^-24, as in the reference: all of
// it.
inline constexpr std::uint32_t kAllRetained = 1U << 24;

// PlanStats as integers.
struct DevicePlanStats {
  std::uint32_t routed_experts = 0;
  std::uint32_t activated_experts = 0;
  std::uint32_t assignments = 0;
  std::uint32_t remapped = 0;
  std::uint64_t retained_q24_sum = 0;
  std::uint32_t retained_q24_min = 0;
  std::uint32_t reserved = 0;
};

// What the plan did to one row of a decode batch.
struct DevicePlanRow {
  std::uint32_t remapped = 0;
  std::uint32_t retained_q24 = 0;
};

// So many hints, at most.
inline constexpr std::uint32_t kPlanHints = 64;

struct DevicePlan {
  std::uint32_t rows = 0;     // B
  std::uint32_t top_k = 0;    // k
  std::uint32_t experts = 0;  // N
  // By row; padding rows and empty slots have expert kNoExpert and weight 0.
  std::uint32_t* expert_of = nullptr;  // [B, k]
  float* weight_of = nullptr;          // [B, k]
  // By active expert: the pairs of active expert i are offsets[i] .. offsets[i+1], by rising row.
  std::uint32_t* count = nullptr;    // [1] A, active experts
  std::uint32_t* active = nullptr;   // [N] the first A are written, rising
  std::uint32_t* offsets = nullptr;  // [N + 1] the first A + 1 are written
  std::uint32_t* row_of = nullptr;   // [B * k]
  std::uint32_t* slot_of = nullptr;  // [B * k]
  float* pair_weight = nullptr;      // [B * k] weight_of[row_of * k + slot_of]
  // While a decode batch is routed: 1 + an expert that is sure to be active, so that its weights can be on
  // their way before the plan is there. By rank, then row; 0: none yet. The expert kernel clears them. They
  // decide nothing: what stands here wrongly costs time alone.
  std::uint32_t* hints = nullptr;      // [kPlanHints]
  DevicePlanStats* stats = nullptr;    // [1]
  DevicePlanRow* row_stats = nullptr;  // [B] the live rows of decode batches are written
};

// Bytes of a plan for up to max_rows rows (a multiple of 256), and the view of one in device memory aligned
// to 256 bytes. Every array starts at a multiple of 16 bytes. A view for fewer rows over the same memory is
// fine.
std::size_t device_plan_bytes(const RouterShape& shape, std::uint32_t max_rows);
DevicePlan device_plan_view(std::byte* memory, const RouterShape& shape, std::uint32_t rows);

// The statistics as the reference reports them.
PlanStats to_plan_stats(const DevicePlanStats& stats);

}  // namespace lynx::cuda
