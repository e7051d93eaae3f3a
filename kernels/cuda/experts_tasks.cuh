// The work of one layer as a list of tasks, the same in every block: all gate-up tasks by active expert, then
// all down tasks. A task is up to 128 outputs for up to 48 rows of one expert, over all inputs. Blocks claim
// tasks in the order of the list, and a task waits only for tasks that stand earlier in it.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/experts_layout.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kMaxExpertsOfLayer = 512;
inline constexpr std::uint32_t kRowBlock = 48;
inline constexpr std::uint32_t kTaskUnits = 4;  // at most; also: units of weights in a stage

// Every task reads the inputs of its rows, and starting and ending one takes time: so tasks are large, unless
// there are so few that they would not share out evenly. `least`: of the layer, see least_units. The bits of
// a row do not depend on the size of tasks.
LYNX_LAYOUT_FN std::uint32_t units_of_task(const MatrixLayout& m, std::uint32_t least, std::uint32_t rows) {
  if (rows > 8) return 4;
  const std::uint32_t most = m.part_cols <= 20 ? 4 : 2;  // some 512 KiB
  const std::uint32_t units = rows <= 4 && least == 1 ? 1 : least < 2 ? 2 : least;
  return units < most ? units : most;
}

struct TaskTables {
  std::uint32_t experts = 0;     // A
  std::uint32_t least = 0;       // units of a task, at least
  std::uint32_t row_blocks = 0;  // of all active experts
  std::uint32_t tasks = 0;
  std::uint32_t first[2 * kMaxExpertsOfLayer + 1];  // first gate-up task of each, then first down task
  std::uint32_t pairs[kMaxExpertsOfLayer + 1];      // the plan's offsets
  std::uint16_t expert[kMaxExpertsOfLayer];         // the plan's active
  std::uint64_t scan[kWarp];
};

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
};

struct ExpertsJob {  // what the kernel is launched with
  ExpertsArgs args;
  ExpertsWorkspace workspace;
  MatrixLayout gate_up, down;
  std::uint32_t activation_stride;
  bool sums_here;  // the weighted sum is made by whoever finishes the last task of some outputs
};

// Such that a block gets at least some eight tasks, if that can be.
__device__ inline std::uint32_t least_units(const ExpertsJob& job, std::uint32_t experts) {
  const std::uint32_t units = experts * (job.gate_up.unit_rows + job.down.unit_rows);
  return units >= gridDim.x * 32 ? 4 : units >= gridDim.x * 8 ? 2 : 1;
}

// The down tasks at the end of the list are small, so that all blocks end together: those of the last
// experts, some two tasks a block.
__device__ inline std::uint32_t least_down_units(const ExpertsJob& job, std::uint32_t least,
                                                 std::uint32_t active, std::uint32_t experts) {
  return (experts - active) * job.down.unit_rows * job.down.parts <= 2 * gridDim.x + job.down.unit_rows
             ? 1
             : least;
}

// Up to 2^21 gate-up tasks, down tasks and row blocks, summed in one scan.
inline constexpr std::uint32_t kPackedBits = 21;
inline constexpr std::uint64_t kPackedMask = (std::uint64_t{1} << kPackedBits) - 1;

__device__ inline std::uint64_t count_tasks(const ExpertsJob& job, std::uint32_t active,
                                            std::uint32_t experts, std::uint32_t rows) {
  const std::uint64_t row_blocks = ceil_div(rows, kRowBlock);
  const std::uint32_t least = least_units(job, experts);
  const std::uint32_t gate_up = units_of_task(job.gate_up, least, rows);
  const std::uint32_t down = units_of_task(job.down, least_down_units(job, least, active, experts), rows);
  return row_blocks * ceil_div(job.gate_up.unit_rows, gate_up) |
         row_blocks * job.down.parts * ceil_div(job.down.unit_rows, down) << kPackedBits |
         row_blocks << 2 * kPackedBits;
}

// All threads of the block. The plan must be complete.
__device__ inline void build_tables(const ExpertsJob& job, TaskTables& t) {
  const DevicePlan& plan = job.args.plan;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warps = blockDim.x / kWarp;
  std::uint64_t before = 0;
  const std::uint32_t experts = *plan.count;
  for (std::uint32_t first = 0; first < plan.experts; first += blockDim.x) {
    const std::uint32_t i = first + threadIdx.x;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t expert = 0;
    if (i < plan.experts) {  // entries beyond A are read and not used: that saves waiting for A
      begin = plan.offsets[i];
      end = plan.offsets[i + 1];
      expert = plan.active[i];
    }
    const std::uint64_t own = i < experts ? count_tasks(job, i, experts, end - begin) : 0;
    std::uint64_t sum = own;
#pragma unroll
    for (std::uint32_t step = 1; step < kWarp; step *= 2) {
      const std::uint64_t other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == kWarp - 1) t.scan[threadIdx.x / kWarp] = sum;
    __syncthreads();
    std::uint64_t place = before + sum - own;
    for (std::uint32_t w = 0; w < warps; ++w) {
      place += w < threadIdx.x / kWarp ? t.scan[w] : 0;
      before += t.scan[w];
    }
    if (i < experts) {
      t.first[i] = place & kPackedMask;
      t.first[experts + i] = place >> kPackedBits & kPackedMask;  // the gate-up tasks are added below
      t.pairs[i] = begin;
      t.pairs[i + 1] = end;
      t.expert[i] = static_cast<std::uint16_t>(expert);
    }
    __syncthreads();
  }
  const auto gate_up_tasks = static_cast<std::uint32_t>(before & kPackedMask);
  for (std::uint32_t i = threadIdx.x; i < experts; i += blockDim.x) t.first[experts + i] += gate_up_tasks;
  if (threadIdx.x == 0) {
    t.experts = experts;
    t.least = least_units(job, experts);
    t.row_blocks = before >> 2 * kPackedBits;
    t.tasks = gate_up_tasks + (before >> kPackedBits & kPackedMask);
    t.first[2 * experts] = t.tasks;
  }
  __syncthreads();
}

__device__ inline Task locate_task(const ExpertsJob& job, const TaskTables& t, std::uint32_t index) {
  std::uint32_t low = 0;
  std::uint32_t high = 2 * t.experts;  // first[low] <= index < first[high]
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (t.first[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  Task task;
  task.down = low >= t.experts;
  task.active = task.down ? low - t.experts : low;
  task.expert = t.expert[task.active];
  const std::uint32_t rows = t.pairs[task.active + 1] - t.pairs[task.active];
  const MatrixLayout& m = task.down ? job.down : job.gate_up;
  const std::uint32_t least = task.down ? least_down_units(job, t.least, task.active, t.experts) : t.least;
  task.task_units = units_of_task(m, least, rows);
  std::uint32_t group = index - t.first[low];  // of outputs, once row blocks and parts are taken out
  std::uint32_t row_block = 0;                 // the innermost: L2 has the weights then
  task.part = 0;
  if (rows > kRowBlock) {
    const std::uint32_t row_blocks = ceil_div(rows, kRowBlock);
    row_block = group % row_blocks;
    group /= row_blocks;
  }
  if (m.parts > 1) {
    task.part = group % m.parts;
    group /= m.parts;
  }
  task.first_pair = t.pairs[task.active] + row_block * kRowBlock;
  task.rows = min(kRowBlock, rows - row_block * kRowBlock);
  task.unit = group * task.task_units;
  task.units = min(task.task_units, m.unit_rows - task.unit);
  task.first_col = task.part * m.part_cols;
  task.inputs = min(m.part_cols * kUnitInputs, m.inputs - task.first_col * kUnitInputs);
  return task;
}

__device__ inline std::uint32_t gate_up_tasks_of(const TaskTables& t, std::uint32_t active) {
  // For the last expert the next entry is the first down task: the end of all gate-up tasks as well.
  return t.first[active + 1] - t.first[active];
}

}  // namespace lynx::cuda
