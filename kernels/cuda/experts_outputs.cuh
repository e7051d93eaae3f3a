// What happens to the sums of a task: gate-up tasks write silu(gate) * up, down tasks write weight * output
// of each (row, slot), and whoever finishes the last down task of 32 outputs adds the slots of every row up,
// in slot order.
#pragma once

#include "kernels/cuda/experts_products.cuh"
#include "kernels/cuda/silu.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kMaxOutputUnits = 1024;  // hidden size / 32

inline constexpr std::uint32_t kTellAhead = 4;  // tasks that the teller may lie behind

struct OutputShared {
  PartialSums sums[2];             // of this pass and the one before
  std::uint64_t told[kTellAhead];  // the other blocks know what a task wrote
  std::uint32_t finished;          // down units that this block finished
  std::uint16_t finished_unit[kMaxOutputUnits];
};

// Eight rows from `first_row` on; in the pass, half h of the outputs is unit `unit_of_half0 + h * unit_step`.
static_assert(kPassOutputs / 2 * kRowTile == kConsumers, "a thread a feature");
struct Pass {
  std::uint32_t first_row;
  std::uint32_t unit;       // of half 0, within the task
  std::uint32_t unit_step;  // to half 1
};

// A task of one unit has nothing in the second half of a pass: units from task.units on are left out.
__device__ inline void write_activations(const ExpertsJob& job, const Task& task, const PartialSums& sums,
                                         const Pass& pass) {
  constexpr std::uint32_t kFeatures = kPassOutputs / 2;
  const std::uint32_t feature = threadIdx.x % kFeatures;
  const std::uint32_t row = threadIdx.x / kFeatures;
  const std::uint32_t unit = pass.unit + feature / 16 * pass.unit_step;
  if (pass.first_row + row >= task.rows || unit >= task.units) return;
  const std::uint32_t column = feature / 16 * 32 + feature % 16;
  const float gate = sums.total(row, column);
  const float up = sums.total(row, column + 16);
  const std::size_t pair = task.first_pair + pass.first_row + row;
  auto* to = reinterpret_cast<__nv_bfloat16*>(job.workspace.activations) + pair * job.activation_stride;
  to[(task.unit + unit) * 16 + feature % 16] = __float2bfloat16_rn(silu(gate) * up);
}

__device__ inline void write_weighted(const ExpertsJob& job, const Task& task, const PartialSums& sums,
                                      const Pass& pass, const PairTarget* targets) {
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < kPassOutputs * kRowTile; i += kConsumers) {
    const std::uint32_t output = i % kPassOutputs;
    const std::uint32_t row = i / kPassOutputs;
    const std::uint32_t unit = pass.unit + output / kUnitOutputs * pass.unit_step;
    if (pass.first_row + row >= task.rows || unit >= task.units) continue;
    const PairTarget target = targets[pass.first_row + row];
    const std::size_t column = (task.unit + unit) * kUnitOutputs + output % kUnitOutputs;
    job.workspace.partial[std::size_t{target.part} * job.args.shape.hidden + column] =
        target.weight * sums.total(row, output);
  }
}

// Up to 8 parts of a row from `first` on, all in flight at once; those of empty slots count as nothing.
__device__ inline float4 add_parts(const ExpertsJob& job, const float* from, std::uint32_t first,
                                   std::uint32_t count, float4 sum) {
  std::uint32_t slot = first / job.down.parts;
  std::uint32_t part_of_slot = first - slot * job.down.parts;
  const std::size_t stride = job.args.shape.hidden;
  float4 part[8];
  std::uint32_t expert[8];
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (i >= count) break;
    part[i] = __ldcg(reinterpret_cast<const float4*>(from + (first + i) * stride));
    expert[i] = job.args.plan.expert_of[slot];
    if (++part_of_slot == job.down.parts) ++slot, part_of_slot = 0;
  }
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (i >= count || expert[i] == ExpertPlan::kNoExpert) continue;
    sum = {sum.x + part[i].x, sum.y + part[i].y, sum.z + part[i].z, sum.w + part[i].w};
  }
  return sum;
}

// Four outputs of a row += all parts of its slots, in slot order. Padding rows stay as they are.
__device__ inline void add_slots(const ExpertsJob& job, std::uint32_t row, std::uint32_t column) {
  const DevicePlan& plan = job.args.plan;
  auto* to = reinterpret_cast<float4*>(job.args.out + row * job.args.out_stride + column);
  const float4 old = *to;
  const std::uint32_t first = row * plan.top_k * job.down.parts;
  const std::uint32_t end = first + plan.top_k * job.down.parts;
  float4 sum = {0, 0, 0, 0};
#pragma unroll 1
  for (std::uint32_t i = first; i < end; i += 8)
    sum = add_parts(job, job.workspace.partial + column, i, end - i, sum);
  if (plan.expert_of[row * plan.top_k] != ExpertPlan::kNoExpert)
    *to = {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
}

}  // namespace lynx::cuda
