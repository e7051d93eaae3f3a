// What the warps of a block hand to each other. Tasks: a planner claims and describes them. Stages: one
// producer fetches weights, another the rows' inputs, and the consumers multiply. The ring of stages runs
// across the borders of tasks, so that memory never idles.
#pragma once

#include "kernels/cuda/experts_tasks.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kConsumerWarps = 8;

struct PairTarget {        // where the output of a pair goes
  std::uint32_t part = 0;  // (row * k + slot) * parts + part
  float weight = 0;
};

inline constexpr std::uint32_t kTaskSlots = 8;
struct TaskSlot {
  Task task;
  const std::uint16_t* inputs[kRowBlock];  // of each row
  PairTarget targets[kRowBlock];           // of down tasks
};

// No block should hold tasks that another could do sooner: the next one is claimed when all but so many
// stages of those before it have been asked for. That is time enough to claim and describe it.
inline constexpr std::uint32_t kClaimLead = 2;

struct TaskRing {
  TaskSlot slots[kTaskSlots];
  std::uint64_t located[kTaskSlots];    // the task is there
  std::uint64_t described[kTaskSlots];  // so are its rows
  std::uint64_t free[kTaskSlots];       // the teller, who comes last, is done with it
  std::uint32_t stages_begun;           // by the producer of weights
};
using TaskCursor = Cursor<kTaskSlots>;

inline constexpr std::uint32_t kStages = 4;
// Stages asked for and not there. What lies in the queues to memory delays all else that a block asks of it
// (inputs, claims, fences): two keep memory busy, four would double the time that everything takes.
inline constexpr std::uint32_t kInFlight = 2;
inline constexpr std::uint32_t kStageWeightBytes = kTaskUnits * kUnitBytes;
inline constexpr std::uint32_t kRowPad = 64;  // bytes: two neighbouring rows then use different banks
inline constexpr std::uint32_t kStageInputBytes = kRowBlock * (kUnitInputs * 2 + kRowPad);

struct Stage {
  std::byte weights[kStageWeightBytes];
  std::byte inputs[kStageInputBytes];
};

struct StageRing {
  Stage stages[kStages];
  std::uint64_t full[kStages];   // both producers' bytes have landed
  std::uint64_t empty[kStages];  // every lane of the consumers is done with it
};
using StageCursor = Cursor<kStages>;

// How a task's inputs are cut into stages.
struct StageShape {
  std::uint32_t unit_cols;   // units of inputs in a stage: 4 / task_units
  std::uint32_t row_stride;  // bytes between rows of activations in a stage
  __device__ explicit StageShape(std::uint32_t task_units)
      : unit_cols(kTaskUnits >> (task_units / 2)), row_stride(unit_cols * kUnitInputs * 2 + kRowPad) {}
  __device__ std::uint32_t inputs() const { return unit_cols * kUnitInputs; }
};

__device__ inline const MatrixLayout& matrix_of(const ExpertsJob& job, const Task& task) {
  return task.down ? job.down : job.gate_up;
}

__device__ inline void init_rings(TaskRing& tasks, StageRing& stages) {
#pragma unroll 1
  for (std::uint32_t s = 0; s < kTaskSlots; ++s) {
    barrier_init(tasks.located[s], 1);
    barrier_init(tasks.described[s], kWarp);  // every lane for what it wrote
    barrier_init(tasks.free[s], 1);
  }
  tasks.stages_begun = 0;
#pragma unroll 1
  for (std::uint32_t s = 0; s < kStages; ++s) {
    barrier_init(stages.full[s], 2);
    barrier_init(stages.empty[s], kConsumerWarps * kWarp);
  }
  publish_barriers();
}

}  // namespace lynx::cuda
