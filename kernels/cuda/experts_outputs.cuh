// What happens to the sums of a task: gate-up tasks write silu(gate) * up, down tasks write weight * output
// of each (row, slot), and whoever finishes the last down task of 32 outputs adds the slots of every row up,
// in slot order.
#pragma once

#include "kernels/cuda/experts_products.cuh"

namespace lynx::cuda {

struct PairTarget {
  std::uint32_t slot = 0;  // row * k + slot
  float weight = 0;
};

struct OutputShared {
  PartialSums sums;
  PairTarget pairs[2][kRowBlock];  // of the current task and the one before it
  std::uint32_t last_units;        // bit u: unit last_unit + u has all its down tasks
  std::uint32_t last_unit;
};

// The fate of the row block's outputs; the first threads. Read after the next sync_threads.
__device__ inline void load_targets(const ExpertsJob& job, const Task& task, PairTarget* targets) {
  if (!task.down || threadIdx.x >= task.rows) return;
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t pair = task.first_pair + threadIdx.x;
  targets[threadIdx.x] = {plan.row_of[pair] * plan.top_k + plan.slot_of[pair], plan.pair_weight[pair]};
}

__device__ inline float silu(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

// Eight rows from `first_row` on; in the pass, half h of the outputs is unit `unit_of_half0 + h * unit_step`.
struct Pass {
  std::uint32_t first_row;
  std::uint32_t unit;       // of half 0, within the task
  std::uint32_t unit_step;  // to half 1
};

template <std::uint32_t kOutputs>
__device__ inline void write_activations(const ExpertsJob& job, const Task& task, const PartialSums& sums,
                                         const Pass& pass) {
  constexpr std::uint32_t kFeatures = kOutputs / 2;
  const std::uint32_t feature = threadIdx.x % kFeatures;
  const std::uint32_t row = threadIdx.x / kFeatures;
  const std::uint32_t unit = pass.unit + feature / 16 * pass.unit_step;
  if (row >= kRowTile || pass.first_row + row >= task.rows || unit >= task.units) return;
  const std::uint32_t column = feature / 16 * 32 + feature % 16;
  const float gate = sums.total(row, column);
  const float up = sums.total(row, column + 16);
  const std::size_t pair = task.first_pair + pass.first_row + row;
  auto* to = reinterpret_cast<__nv_bfloat16*>(job.workspace.activations) + pair * job.activation_stride;
  to[(task.unit + unit) * 16 + feature % 16] = __float2bfloat16_rn(silu(gate) * up);
}

template <std::uint32_t kOutputs>
__device__ inline void write_weighted(const ExpertsJob& job, const Task& task, const PartialSums& sums,
                                      const Pass& pass, const PairTarget* targets) {
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < kOutputs * kRowTile; i += kConsumers) {
    const std::uint32_t output = i % kOutputs;
    const std::uint32_t row = i / kOutputs;
    const std::uint32_t unit = pass.unit + output / kUnitOutputs * pass.unit_step;
    if (pass.first_row + row >= task.rows || unit >= task.units) continue;
    const PairTarget target = targets[pass.first_row + row];
    const std::size_t column = (task.unit + unit) * kUnitOutputs + output % kUnitOutputs;
    job.workspace.partial[std::size_t{target.slot} * job.args.shape.hidden + column] =
        target.weight * sums.total(row, output);
  }
}

// The weighted sum of 32 outputs of every row. All consumers, after the last of their down tasks.
__device__ inline void add_slots(const ExpertsJob& job, std::uint32_t unit) {
  const DevicePlan& plan = job.args.plan;
  constexpr std::uint32_t kVectors = kUnitOutputs / 4;
  for (std::uint32_t i = threadIdx.x; i < plan.rows * kVectors; i += kConsumers) {
    const std::uint32_t row = i / kVectors;
    const std::uint32_t column = unit * kUnitOutputs + i % kVectors * 4;
    const std::uint32_t slot = row * plan.top_k;
    if (plan.expert_of[slot] == ExpertPlan::kNoExpert) continue;  // padding
    const float* from = job.workspace.partial + std::size_t{slot} * job.args.shape.hidden + column;
    float4 sum = {0, 0, 0, 0};
#pragma unroll 8
    for (std::uint32_t s = 0; s < plan.top_k; ++s) {
      const float4 part =
          __ldcg(reinterpret_cast<const float4*>(from + std::size_t{s} * job.args.shape.hidden));
      const bool used = plan.expert_of[slot + s] != ExpertPlan::kNoExpert;
      sum.x += used ? part.x : 0.0F;
      sum.y += used ? part.y : 0.0F;
      sum.z += used ? part.z : 0.0F;
      sum.w += used ? part.w : 0.0F;
    }
    auto* to = reinterpret_cast<float4*>(job.args.out + row * job.args.out_stride + column);
    const float4 old = *to;
    *to = {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
  }
}

}  // namespace lynx::cuda
