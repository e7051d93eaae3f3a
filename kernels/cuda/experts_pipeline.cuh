// The ring of stages through which weights and activations stream, across the borders of tasks, so that
// memory never idles. Two producers, a warp each: one fetches weights and waits for nothing but free stages;
// the other fetches the rows' activations, and before a down task waits for the gate-up tasks that make them.
// By then the weights are here.
#pragma once

#include "kernels/cuda/experts_tasks.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kStages = 4;
inline constexpr std::uint32_t kStageWeightBytes = kTaskUnits * kUnitBytes;
inline constexpr std::uint32_t kRowPad = 64;  // bytes: two neighbouring rows then use different banks
inline constexpr std::uint32_t kStageInputBytes = kRowBlock * (kUnitInputs * 2 + kRowPad);
inline constexpr std::uint32_t kConsumerWarps = 8;

struct Stage {
  std::byte weights[kStageWeightBytes];
  std::byte inputs[kStageInputBytes];
};

struct Ring {
  Stage stages[kStages];
  std::uint64_t full[kStages];   // both producers' bytes have landed
  std::uint64_t empty[kStages];  // all consumer warps are done with it
};

__device__ inline void init_ring(Ring& ring) {
  for (std::uint32_t s = 0; s < kStages; ++s) {
    barrier_init(ring.full[s], 2);
    barrier_init(ring.empty[s], kConsumerWarps);
  }
  publish_barriers();
}

// A position in the ring; every role walks the same sequence.
struct Cursor {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// How a task's inputs are cut into stages.
struct StageShape {
  std::uint32_t unit_cols;   // units of inputs in a stage: 4 / task_units
  std::uint32_t row_stride;  // bytes between rows of activations in a stage
  __device__ explicit StageShape(std::uint32_t task_units)
      : unit_cols(kTaskUnits / task_units), row_stride(unit_cols * kUnitInputs * 2 + kRowPad) {}
  __device__ std::uint32_t inputs() const { return unit_cols * kUnitInputs; }
};

__device__ inline const MatrixLayout& matrix_of(const ExpertsJob& job, const Task& task) {
  return task.down ? job.down : job.gate_up;
}

// One thread.
__device__ inline void produce_weights(const ExpertsJob& job, const TaskTables& tables, Ring& ring) {
  const std::uint64_t policy = evict_first_policy();
  const std::size_t expert_bytes = matrix_bytes(job.gate_up) + matrix_bytes(job.down);
  Cursor at;
  for (std::uint32_t index = blockIdx.x; index < tables.tasks; index += gridDim.x) {
    const Task task = locate_task(job, tables, index);
    const MatrixLayout& m = matrix_of(job, task);
    const StageShape shape(task.task_units);
    const std::byte* from = job.args.packed + task.expert * expert_bytes + m.expert_offset +
                            std::size_t{task.unit} * m.unit_cols * kUnitBytes;
    for (std::uint32_t col = 0; col < m.unit_cols; col += shape.unit_cols, at.advance()) {
      const std::uint32_t bytes = min(shape.unit_cols, m.unit_cols - col) * kUnitBytes;
      wait(ring.empty[at.stage], at.parity ^ 1);
      arrive_expecting(ring.full[at.stage], task.units * bytes);
      for (std::uint32_t u = 0; u < task.units; ++u) {
        bulk_copy(ring.stages[at.stage].weights + u * shape.unit_cols * kUnitBytes,
                  from + (std::size_t{u} * m.unit_cols + col) * kUnitBytes, bytes, ring.full[at.stage],
                  policy);
      }
    }
  }
}

// One warp; lane l fetches rows l and l + 32.
__device__ inline void produce_inputs(const ExpertsJob& job, const TaskTables& tables, Ring& ring) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint64_t policy = evict_normal_policy();
  std::uint32_t ready = 0xFFFFFFFF;  // the active expert that was last seen to have its activations
  Cursor at;
  for (std::uint32_t index = blockIdx.x; index < tables.tasks; index += gridDim.x) {
    const Task task = locate_task(job, tables, index);
    const StageShape shape(task.task_units);
    const std::uint32_t inputs = matrix_of(job, task).inputs;
    const std::uint16_t* rows[2] = {};
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t pair = task.first_pair + lane + i * kWarp;
      if (lane + i * kWarp >= task.rows) continue;
      rows[i] = task.down ? job.workspace.activations + std::size_t{pair} * job.activation_stride
                          : job.args.x + job.args.plan.row_of[pair] * job.args.x_stride;
    }
    if (task.down && ready != task.active) {
      const std::uint32_t needed = gate_up_tasks_of(tables, task.active);
      while (load_acquire(&job.workspace.gate_up_done[task.active]) != needed) __nanosleep(20);
      copy_engine_fence();
      ready = task.active;
    }
    for (std::uint32_t first = 0; first < inputs; first += shape.inputs(), at.advance()) {
      const std::uint32_t bytes = min(shape.inputs(), inputs - first) * 2;
      wait(ring.empty[at.stage], at.parity ^ 1);
      if (lane == 0) arrive_expecting(ring.full[at.stage], task.rows * bytes);
      __syncwarp();
      for (std::uint32_t i = 0; i < 2; ++i) {
        if (rows[i] == nullptr) continue;
        bulk_copy(ring.stages[at.stage].inputs + (lane + i * kWarp) * shape.row_stride, rows[i] + first,
                  bytes, ring.full[at.stage], policy);
      }
    }
  }
}

}  // namespace lynx::cuda
