// How a planner finds its tasks on the list: its first at once, the others by tables of the whole list.
#pragma once

#include <iterator>

#include "kernels/cuda/experts_tasks.cuh"

namespace lynx::cuda {

struct TaskTables {                 // the planner's
  std::uint32_t experts = 0;        // A
  std::uint32_t least = 0;          // units of a task, at least
  std::uint32_t first_small = 0;    // the active expert from which on down tasks are small
  std::uint32_t row_blocks = 0;     // of all active experts
  std::uint32_t gate_up_tasks = 0;  // they come first
  std::uint32_t tasks = 0;
  std::uint32_t first_gate_up[kMaxExpertsOfLayer];  // of each active expert, among the gate-up tasks
  std::uint32_t first_down[kMaxExpertsOfLayer];     // and among the down tasks
  std::uint32_t pairs[kMaxExpertsOfLayer + 1];      // the plan's offsets
  std::uint16_t expert[kMaxExpertsOfLayer];         // the plan's active
  alignas(16) std::uint32_t rehearsal[16];          // a plan of one pair: see rehearsal_plan
};

// Four neighbouring experts of the plan. Entries beyond A are read and not used: that saves waiting for A.
struct FourExperts {
  std::uint32_t expert[4];
  std::uint32_t offset[5];
  __device__ FourExperts(const DevicePlan& plan, std::uint32_t first) : expert{}, offset{} {
    if (first < plan.experts) {
      const uint4 e = *reinterpret_cast<const uint4*>(plan.active + first);
      expert[0] = e.x, expert[1] = e.y, expert[2] = e.z, expert[3] = e.w;
    }
    if (first <= plan.experts) {
      const uint4 o = *reinterpret_cast<const uint4*>(plan.offsets + first);
      offset[0] = o.x, offset[1] = o.y, offset[2] = o.z, offset[3] = o.w;
    }
    if (first + 4 <= plan.experts) offset[4] = plan.offsets[first + 4];
  }
};

// One warp. The plan must be complete.
__device__ inline void build_tables(const ExpertsJob& job, const DevicePlan& plan, TaskTables& t) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t experts = *plan.count;
  const std::uint32_t least = least_units(job, experts);
  const std::uint32_t small = first_small_down(job, experts);
  const UnitsOfClass gate_up(job.gate_up, least), down(job.down, least), small_down(job.down, 1);
  std::uint32_t row_blocks = 0, gate_up_tasks = 0, down_tasks = 0;
#pragma unroll 1
  for (std::uint32_t first = 0; first == 0 || first < experts; first += 4 * kWarp) {
    const std::uint32_t mine = first + 4 * lane;
    const FourExperts four(plan, mine);
    std::uint32_t gate_ups[4], downs[4];
    std::uint32_t own_gate_up = 0, own_down = 0;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
      const std::uint32_t rows = four.offset[j + 1] - four.offset[j];
      const std::uint32_t blocks = mine + j < experts ? row_blocks_of(rows) : 0;
      const std::uint32_t down_units = mine + j < small ? down.of(rows) : small_down.of(rows);
      gate_ups[j] = blocks * tasks_of_units(job.gate_up.unit_rows, gate_up.of(rows));
      downs[j] = blocks * job.down.parts * tasks_of_units(job.down.unit_rows, down_units);
      own_gate_up += gate_ups[j];
      own_down += downs[j];
      row_blocks += blocks;
    }
    const std::uint32_t gate_ups_here = warp_prefix_sum(own_gate_up, lane);
    const std::uint32_t downs_here = warp_prefix_sum(own_down, lane);
    std::uint32_t gate_up_at = gate_up_tasks + gate_ups_here - own_gate_up;
    std::uint32_t down_at = down_tasks + downs_here - own_down;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
      if (mine + j >= experts) break;
      t.first_gate_up[mine + j] = gate_up_at;
      t.first_down[mine + j] = down_at;
      t.pairs[mine + j] = four.offset[j];
      t.expert[mine + j] = static_cast<std::uint16_t>(four.expert[j]);
      if (mine + j + 1 == experts) t.pairs[experts] = four.offset[j + 1];
      gate_up_at += gate_ups[j];
      down_at += downs[j];
    }
    gate_up_tasks += __shfl_sync(kAllLanes, gate_ups_here, kWarp - 1);
    down_tasks += __shfl_sync(kAllLanes, downs_here, kWarp - 1);
  }
  row_blocks = __reduce_add_sync(kAllLanes, row_blocks);
  if (lane == 0) {
    t.experts = experts;
    t.least = least;
    t.first_small = small;
    t.row_blocks = row_blocks;
    t.gate_up_tasks = gate_up_tasks;
    t.tasks = gate_up_tasks + down_tasks;
  }
  __syncwarp();
}

// All lanes of a warp, for a task that is on the list.
__device__ inline TaskPlace locate_task(const ExpertsJob& job, const TaskTables& t, std::uint32_t index) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const bool down = index >= t.gate_up_tasks;
  const std::uint32_t* first = down ? t.first_down : t.first_gate_up;
  if (down) index -= t.gate_up_tasks;
  std::uint32_t begun = 0;  // active experts whose first task is this one or before it
#pragma unroll 1
  for (std::uint32_t i = 0; begun == i && i < t.experts; i += kWarp)
    begun += __popc(__ballot_sync(kAllLanes, i + lane < t.experts && first[i + lane] <= index));
  const std::uint32_t active = begun - 1;
  const TaskExpert of{active, t.expert[active], t.pairs[active], t.pairs[active + 1] - t.pairs[active]};
  const std::uint32_t gate_up = units_of_task(job.gate_up, t.least, of.rows);
  const std::uint32_t units =
      down ? units_of_task(job.down, active >= t.first_small ? 1 : t.least, of.rows) : gate_up;
  return {of, down, index - first[active], units, gate_up};
}

// A block's first task is one of the first of the list: found among 32 experts, without the tables, which
// take their time. Without rows if it is not there. One warp; the plan must be complete.
__device__ inline TaskPlace first_task(const ExpertsJob& job, const DevicePlan& plan, std::uint32_t index) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t experts = *plan.count;
  TaskExpert of{lane, 0, 0, 0};
  if (lane < plan.experts) {  // entries beyond A are read and not used: that saves waiting for A
    of.expert = plan.active[lane];
    of.first_pair = plan.offsets[lane];
    of.rows = plan.offsets[lane + 1] - of.first_pair;
  }
  const std::uint32_t units = units_of_task(job.gate_up, least_units(job, experts), of.rows);
  const std::uint32_t own =
      lane < experts ? row_blocks_of(of.rows) * tasks_of_units(job.gate_up.unit_rows, units) : 0;
  const std::uint32_t end = warp_prefix_sum(own, lane);
  const std::uint32_t beyond = __ballot_sync(kAllLanes, end > index);
  if (beyond == 0) return {};
  const auto from = [&](std::uint32_t value) { return __shfl_sync(kAllLanes, value, __ffs(beyond) - 1); };
  const TaskExpert its{from(lane), from(of.expert), from(of.first_pair), from(of.rows)};
  return {its, false, index - from(end - own), from(units), from(units)};
}

// A planner has nothing to do until the plan is there, and its instructions come from afar: so it rehearses
// its first task, on a plan of one row at one expert.
__device__ inline DevicePlan rehearsal_plan(TaskTables& t) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  constexpr std::uint32_t kActiveAt = 4, kOffsetsAt = 8;
  if (lane < std::size(t.rehearsal)) t.rehearsal[lane] = lane == 0 || lane == kOffsetsAt + 1 ? 1 : 0;
  __syncwarp();
  DevicePlan plan;
  plan.experts = 1;
  plan.count = t.rehearsal;
  plan.active = t.rehearsal + kActiveAt;
  plan.offsets = t.rehearsal + kOffsetsAt;
  return plan;
}

}  // namespace lynx::cuda
