// The work of one layer as a list of tasks, the same in every block: all gate-up tasks by active expert, then
// all down tasks. A task is up to 128 outputs for up to 48 rows of one expert, over all inputs. Blocks claim
// tasks in the order of the list, and a task waits only for tasks that stand earlier in it.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kRowBlock = 48;
inline constexpr std::uint32_t kTaskUnits = 4;  // at most; also: units of weights in a stage

// Every task reads the inputs of its rows, and starting and ending one takes time: so tasks are large, unless
// there are so few that they would not share out evenly. `least`: of the layer, see least_units. The bits of
// a row do not depend on the size of tasks.
LYNX_LAYOUT_FN std::uint32_t units_of_task(const MatrixLayout& m, std::uint32_t least, std::uint32_t rows) {
  if (rows > 8) return least == 1 && rows <= 16 ? 2 : 4;
  const std::uint32_t most = m.part_cols <= 20 ? 4 : 2;  // some 512 KiB
  const std::uint32_t units = rows <= 4 && least == 1 ? 1 : least < 2 ? 2 : least;
  return units < most ? units : most;
}

struct Task {
  bool down;
  std::uint32_t active;      // index of the active expert
  std::uint32_t expert;      // its id
  std::uint32_t first_pair;  // of the row block
  std::uint32_t rows;        // of the row block, 1..48; 0: the list has ended
  std::uint32_t unit;        // first 32 outputs
  std::uint32_t units;       // how many units of outputs there are, up to task_units
  std::uint32_t task_units;  // 1, 2 or 4
  std::uint32_t part;        // of the inputs
  std::uint32_t first_col;   // its first unit of inputs
  std::uint32_t inputs;      // and how many inputs it has
  std::uint32_t gate_up;     // gate-up tasks of the expert
};

struct ExpertsJob {  // what the kernel is launched with
  ExpertsArgs args;
  ExpertsWorkspace workspace;
  MatrixLayout gate_up, down;
  std::uint32_t activation_stride;
  std::uint32_t small_downs;  // experts at the end whose down tasks are small
  std::uint32_t ahead_slice;  // bytes of gate-up weights that a block brings ahead: of one expert, at most,
  std::uint32_t ahead_bytes;  // and of all
  bool sums_here;             // the weighted sum is made by whoever finishes the last task of some outputs
};

// One thread a role.
__device__ inline void mark_experts(const ExpertsJob& job, ExpertsMark mark) {
  mark_now(job.args.timeline, mark);
}
__device__ inline void mark_sum(const ExpertsJob& job, ExpertsMark mark, std::uint64_t value) {
  if (job.args.timeline != nullptr) set_mark(job.args.timeline, mark, value);
}

// Such that a block gets at least some eight tasks, if that can be.
__device__ inline std::uint32_t least_units(const ExpertsJob& job, std::uint32_t experts) {
  const std::uint32_t units = experts * (job.gate_up.unit_rows + job.down.unit_rows);
  return units >= gridDim.x * 32 ? 4 : units >= gridDim.x * 8 ? 2 : 1;
}

// The down tasks at the end of the list are small, so that all blocks end together: those of the last
// experts, some two tasks a block. The first active expert of these.
__device__ inline std::uint32_t first_small_down(const ExpertsJob& job, std::uint32_t experts) {
  return experts - min(job.small_downs, experts);
}

// Experts fall into four classes by their rows, within which their tasks are alike: worked out once, for a
// planner's arithmetic stands between a plan and the first weights.
struct UnitsOfClass {
  std::uint32_t units[4];
  __device__ UnitsOfClass(const MatrixLayout& m, std::uint32_t least)
      : units{units_of_task(m, least, 1), units_of_task(m, least, 8), units_of_task(m, least, 16),
              units_of_task(m, least, 17)} {}
  __device__ std::uint32_t of(std::uint32_t rows) const {
    return rows <= 4 ? units[0] : rows <= 8 ? units[1] : rows <= 16 ? units[2] : units[3];
  }
};

// 1, 2 or 4 units a task.
__device__ inline std::uint32_t tasks_of_units(std::uint32_t units, std::uint32_t of_task) {
  return (units + of_task - 1) >> (of_task / 2);
}
__device__ inline std::uint32_t row_blocks_of(std::uint32_t rows) {
  return rows <= kRowBlock ? 1 : ceil_div(rows, kRowBlock);
}

// What one active expert has to do with a task.
struct TaskExpert {
  std::uint32_t active;
  std::uint32_t expert;
  std::uint32_t first_pair;
  std::uint32_t rows;
};

// A place on the list: the task `group` of those that an expert has in a matrix.
struct TaskPlace {
  TaskExpert of{0, 0, 0, 0};  // without rows: beyond the list
  bool down = false;
  std::uint32_t group = 0;
  std::uint32_t task_units = 0;
  std::uint32_t gate_up_units = 0;  // of a gate-up task of the expert
};

__device__ inline Task make_task(const ExpertsJob& job, const TaskPlace& place) {
  const auto& [of, down, first_group, task_units, gate_up_units] = place;
  std::uint32_t group = first_group;
  const MatrixLayout& m = down ? job.down : job.gate_up;
  Task task;
  task.down = down;
  task.active = of.active;
  task.expert = of.expert;
  task.task_units = task_units;
  std::uint32_t row_block = 0;  // the innermost: L2 has the weights then
  task.part = 0;
  if (of.rows > kRowBlock) {
    const std::uint32_t row_blocks = ceil_div(of.rows, kRowBlock);
    row_block = group % row_blocks;
    group /= row_blocks;
  }
  if (m.parts > 1) {
    task.part = group % m.parts;
    group /= m.parts;
  }
  task.first_pair = of.first_pair + row_block * kRowBlock;
  task.rows = min(kRowBlock, of.rows - row_block * kRowBlock);
  task.unit = group * task_units;
  task.units = min(task_units, m.unit_rows - task.unit);
  task.first_col = task.part * m.part_cols;
  task.inputs = min(m.part_cols * kUnitInputs, m.inputs - task.first_col * kUnitInputs);
  task.gate_up = row_blocks_of(of.rows) * tasks_of_units(job.gate_up.unit_rows, gate_up_units);
  return task;
}

}  // namespace lynx::cuda
