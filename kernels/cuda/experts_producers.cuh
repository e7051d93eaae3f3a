// The warps that keep the rings full: the planner, the producer of weights, which waits for nothing but free
// stages, and the producer of inputs, which before a down task waits for the gate-up tasks that make them. By
// then the weights of the task are on their way.
#pragma once

#include "kernels/cuda/experts_pipeline.cuh"

namespace lynx::cuda {

// Where a row's inputs come from; and, for a down task, where its outputs go.
__device__ inline void describe_row(const ExpertsJob& job, TaskSlot& slot, const Task& task,
                                    std::uint32_t row) {
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t pair = task.first_pair + row;
  if (!task.down) {
    slot.inputs[row] = job.args.x + plan.row_of[pair] * job.args.x_stride;
    return;
  }
  slot.inputs[row] =
      job.workspace.activations + std::size_t{pair} * job.activation_stride + task.first_col * kUnitInputs;
  slot.targets[row] = {(plan.row_of[pair] * plan.top_k + plan.slot_of[pair]) * job.down.parts + task.part,
                       plan.pair_weight[pair]};
}

__device__ inline std::uint32_t stages_of(const Task& task) {
  return ceil_div(task.inputs, StageShape(task.task_units).inputs());
}

// One warp: claims tasks until the list ends, and describes them.
__device__ inline void plan_tasks(const ExpertsJob& job, const TaskTables& tables, TaskRing& ring) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t claimed = 0;  // stages
  TaskCursor at;
  for (std::uint32_t index = blockIdx.x;; at.advance()) {
    wait(ring.free[at.at], at.parity ^ 1);
    TaskSlot& slot = ring.slots[at.at];
    Task task{};
    if (index < tables.tasks) task = locate_task(job, tables, index);
    if (lane == 0) {
      slot.task = task;
      arrive(ring.located[at.at]);
    }
    for (std::uint32_t row = lane; row < task.rows; row += kWarp) describe_row(job, slot, task, row);
    arrive(ring.described[at.at]);
    if (task.rows == 0) return;
    claimed += stages_of(task);
    if (lane == 0) {
      while (claimed > atomicAdd(&ring.stages_begun, 0U) + kClaimLead) __nanosleep(32);
      index = gridDim.x + atomicAdd(job.workspace.next_task, 1U);
    }
    index = __shfl_sync(kAllLanes, index, 0);
  }
}

// One thread.
__device__ inline void produce_weights(const ExpertsJob& job, TaskRing& tasks, StageRing& ring) {
  const std::uint64_t policy = evict_first_policy();
  const std::size_t expert_bytes = matrix_bytes(job.gate_up) + matrix_bytes(job.down);
  StageCursor stage;
  for (TaskCursor at;; at.advance()) {
    wait(tasks.located[at.at], at.parity);
    const Task task = tasks.slots[at.at].task;
    if (task.rows == 0) return;
    const MatrixLayout& m = matrix_of(job, task);
    const StageShape shape(task.task_units);
    const std::byte* from = job.args.packed + task.expert * expert_bytes + m.expert_offset +
                            (std::size_t{task.unit} * m.unit_cols + task.first_col) * kUnitBytes;
    const std::uint32_t cols = ceil_div(task.inputs, kUnitInputs);
    for (std::uint32_t col = 0; col < cols; col += shape.unit_cols, stage.advance()) {
      const std::uint32_t bytes = min(shape.unit_cols, cols - col) * kUnitBytes;
      wait(ring.empty[stage.at], stage.parity ^ 1);
      arrive_expecting(ring.full[stage.at], task.units * bytes);
      for (std::uint32_t u = 0; u < task.units; ++u) {
        bulk_copy(ring.stages[stage.at].weights + u * shape.unit_cols * kUnitBytes,
                  from + (std::size_t{u} * m.unit_cols + col) * kUnitBytes, bytes, ring.full[stage.at],
                  policy);
      }
      atomicAdd(&tasks.stages_begun, 1U);
    }
  }
}

// One warp; lane l fetches rows l and l + 32.
__device__ inline void produce_inputs(const ExpertsJob& job, const TaskTables& tables, TaskRing& tasks,
                                      StageRing& ring) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint64_t policy = evict_normal_policy();
  std::uint32_t ready = 0xFFFFFFFF;  // the active expert that was last seen to have its activations
  StageCursor stage;
  copy_engine_fence();
  for (TaskCursor at;; at.advance()) {
    wait(tasks.described[at.at], at.parity);
    const TaskSlot& slot = tasks.slots[at.at];
    const Task task = slot.task;
    if (task.rows == 0) return;
    const StageShape shape(task.task_units);
    const std::uint16_t* rows[2] = {};
    for (std::uint32_t i = 0; i < 2; ++i)
      if (lane + i * kWarp < task.rows) rows[i] = slot.inputs[lane + i * kWarp];
    if (task.down && ready != task.active) {
      const std::uint32_t needed = gate_up_tasks_of(tables, task.active);
      while (load_acquire(&job.workspace.gate_up_done[task.active]) != needed) __nanosleep(20);
      copy_engine_fence();
      ready = task.active;
    }
    for (std::uint32_t first = 0; first < task.inputs; first += shape.inputs(), stage.advance()) {
      const std::uint32_t bytes = min(shape.inputs(), task.inputs - first) * 2;
      wait(ring.empty[stage.at], stage.parity ^ 1);
      if (lane == 0) arrive_expecting(ring.full[stage.at], task.rows * bytes);
      __syncwarp();
      for (std::uint32_t i = 0; i < 2; ++i)
        if (rows[i] != nullptr)
          bulk_copy(ring.stages[stage.at].inputs + (lane + i * kWarp) * shape.row_stride, rows[i] + first,
                    bytes, ring.full[stage.at], policy);
    }
  }
}

}  // namespace lynx::cuda
