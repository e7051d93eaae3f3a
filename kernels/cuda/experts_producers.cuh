// The warps that keep the rings full: the planner; the producer of weights, which waits for a free stage and,
// with kInFlight stages under way, for the oldest of them to be full, inputs and all; and the producer of
// inputs, which before a down task waits for the gate-up tasks that make them. By then the task's first
// stages of weights are on their way.
#pragma once

#include "kernels/cuda/experts_pipeline.cuh"
#include "kernels/cuda/experts_tables.cuh"

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
  const std::uint32_t cols = ceil_div(task.inputs, kUnitInputs);
  return (cols * task.task_units + kTaskUnits - 1) / kTaskUnits;
}

// One warp: claims tasks until the list ends, and describes them.
class Planner {
 public:
  __device__ Planner(const ExpertsJob& job, TaskTables& tables, TaskRing& ring)
      : job_(job), tables_(tables), ring_(ring) {}

  // Each step has one place in the code, which comes from afar.
  __device__ void run() {
    DevicePlan plan = rehearsal_plan(tables_);
    std::uint32_t index = 0;
#pragma unroll 1
    for (enum {kRehearsal, kFirst, kListed} step = kRehearsal;;) {
      TaskPlace place;
      if (step != kListed)
        place = first_task(job_, plan, index);
      else if (index < tables_.tasks)
        place = locate_task(job_, tables_, index);
      const Task task = make_task(job_, place);
      if (step == kRehearsal) {
        grid_dependency_wait();
        plan = job_.args.plan;
        index = blockIdx.x;
        step = kFirst;
        continue;
      }
      const bool found = task.rows != 0;
      if (step == kFirst && lane_ == 0) mark_experts(job_, ExpertsMark::kFirstFound);
      if (found || step == kListed) hand_over(task);
      if (!found && step == kListed) return;
      if (step == kFirst) build_tables(job_, plan, tables_);
      step = kListed;
      if (found) index = claim();
    }
  }

 private:
  __device__ void hand_over(const Task& task) {
    wait(ring_.free[at_.at], at_.parity ^ 1);
    TaskSlot& slot = ring_.slots[at_.at];
    if (lane_ == 0) {
      slot.task = task;
      arrive(ring_.located[at_.at]);
    }
#pragma unroll 1
    for (std::uint32_t row = lane_; row < task.rows; row += kWarp) describe_row(job_, slot, task, row);
    arrive(ring_.described[at_.at]);
    claimed_ += stages_of(task);
    at_.advance();
  }
  // The next task that nobody has claimed, when it is time.
  __device__ std::uint32_t claim() {
    std::uint32_t index = 0;
    if (lane_ == 0) {
      while (claimed_ > atomicAdd(&ring_.stages_begun, 0U) + kClaimLead) __nanosleep(32);
      index = gridDim.x + atomicAdd(job_.workspace.next_task, 1U);
    }
    return __shfl_sync(kAllLanes, index, 0);
  }

  const ExpertsJob& job_;
  TaskTables& tables_;
  TaskRing& ring_;
  const std::uint32_t lane_ = threadIdx.x % kWarp;
  TaskCursor at_;
  std::uint32_t claimed_ = 0;  // stages
};

// One warp, until the block has its first task: this block's share of the experts that routing hints at. It
// reads the hints while routing still runs, for whatever stands there is harmless: see DevicePlan::hints.
class WeightsAhead {
 public:
  __device__ explicit WeightsAhead(const ExpertsJob& job) : job_(job), left_(job.ahead_bytes) {}

  __device__ void run(std::uint64_t& until) {
    std::uint32_t seen = 0;  // bit i: of hint 32 i + lane
    while (left_ != 0 && __any_sync(kAllLanes, has_completed(until, 0)) == 0) {
#pragma unroll 1
      for (std::uint32_t i = 0; i < kPlanHints / kWarp; ++i) {
        const bool before = (seen >> i & 1) != 0;
        const std::uint32_t hint = before ? 0 : load_relaxed(job_.args.plan.hints + i * kWarp + lane_);
        if (hint != 0) seen |= 1U << i;
#pragma unroll 1
        for (std::uint32_t lanes = __ballot_sync(kAllLanes, hint != 0); lanes != 0; lanes &= lanes - 1)
          ask_for(__shfl_sync(kAllLanes, hint, __ffs(lanes) - 1) - 1);
      }
    }
  }

 private:
  __device__ void ask_for(std::uint32_t expert) {
    if (expert >= job_.args.shape.experts || asked_for(expert)) return;
    const std::size_t all = matrix_bytes(job_.gate_up);
    const std::size_t first = std::size_t{blockIdx.x} * job_.ahead_slice;
    if (first >= all) return;
    const auto bytes =
        static_cast<std::uint32_t>(min(std::size_t{min(job_.ahead_slice, left_)}, all - first));
    left_ -= bytes;
    const std::byte* from =
        job_.args.packed + expert * (all + matrix_bytes(job_.down)) + job_.gate_up.expert_offset + first;
#pragma unroll 1
    for (std::uint32_t at = lane_ * kUnitBytes; at < bytes; at += kWarp * kUnitBytes)
      prefetch_to_l2(from + at, kUnitBytes);
  }
  // Lane l keeps experts 32 l to 32 l + 31.
  __device__ bool asked_for(std::uint32_t expert) {
    const std::uint32_t bit = 1U << (expert % 32);
    const bool before = (__shfl_sync(kAllLanes, asked_, expert / 32) & bit) != 0;
    if (lane_ == expert / 32) asked_ |= bit;
    return before;
  }

  const ExpertsJob& job_;
  const std::uint32_t lane_ = threadIdx.x % kWarp;
  std::uint32_t left_;
  std::uint32_t asked_ = 0;
};

// One thread.
__device__ inline void produce_weights(const ExpertsJob& job, TaskRing& tasks, StageRing& ring) {
  const std::uint64_t policy = evict_first_policy();
  const std::size_t expert_bytes = matrix_bytes(job.gate_up) + matrix_bytes(job.down);
  StageCursor stage;
  bool first = true;
  std::uint32_t issued = 0;  // stages
  for (TaskCursor at;; at.advance()) {
    wait(tasks.located[at.at], at.parity);
    const Task task = tasks.slots[at.at].task;
    if (task.rows == 0) break;
    const MatrixLayout& m = matrix_of(job, task);
    const StageShape shape(task.task_units);
    const std::byte* from = job.args.packed + task.expert * expert_bytes + m.expert_offset +
                            unit_offset(m, task.unit, task.first_col);
    const std::size_t col_bytes = column_bytes(m, task.unit);
    const std::uint32_t cols = ceil_div(task.inputs, kUnitInputs);
#pragma unroll 1
    for (std::uint32_t col = 0; col < cols; col += shape.unit_cols, stage.advance()) {
      const std::uint32_t cols_here = min(shape.unit_cols, cols - col);
      wait(ring.empty[stage.at], stage.parity ^ 1);
      if (issued >= kInFlight) {
        const std::uint32_t landed = issued - kInFlight;
        wait(ring.full[landed % kStages], landed / kStages % 2);
      }
      ++issued;
      arrive_expecting(ring.full[stage.at], cols_here * task.units * kUnitBytes);
#pragma unroll 1
      for (std::uint32_t c = 0; c < cols_here; ++c)
        bulk_copy(ring.stages[stage.at].weights + c * task.task_units * kUnitBytes,
                  from + (col + c) * col_bytes, task.units * kUnitBytes, ring.full[stage.at], policy);
      atomicAdd(&tasks.stages_begun, 1U);
      if (first) mark_experts(job, ExpertsMark::kFirstIssue);
      first = false;
    }
  }
  mark_experts(job, ExpertsMark::kLastIssue);
}

// One warp; lane l fetches rows l and l + 32.
__device__ inline void produce_inputs(const ExpertsJob& job, TaskRing& tasks, StageRing& ring) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint64_t policy = evict_normal_policy();
  std::uint32_t ready = 0xFFFFFFFF;  // the active expert that was last seen to have its activations
  StageCursor stage;
  Stopwatch gate(job.args.timeline != nullptr);
  bool first_task = true;
  bool first_down = true;
  copy_engine_fence();
  for (TaskCursor at;; at.advance()) {
    wait(tasks.described[at.at], at.parity);
    const TaskSlot& slot = tasks.slots[at.at];
    const Task task = slot.task;
    if (task.rows == 0) break;
    const StageShape shape(task.task_units);
    const std::uint16_t* rows[2] = {};
    for (std::uint32_t i = 0; i < 2; ++i)
      if (lane + i * kWarp < task.rows) rows[i] = slot.inputs[lane + i * kWarp];
    if (task.down && ready != task.active) {
      gate.start();
      const std::uint32_t* const done = &job.workspace.gate_up_done[task.active];
      wait_for_blocks(
          [&] {
            const bool all = load_acquire(done) == task.gate_up;
            if (!all) __nanosleep(20);
            return all;
          },
          job.args.long_wait, LongWait::kGateUp);
      gate.stop();
      copy_engine_fence();
      if (first_down && lane == 0) mark_experts(job, ExpertsMark::kDownReady);
      first_down = false;
      ready = task.active;
    }
#pragma unroll 1
    for (std::uint32_t first = 0; first < task.inputs; first += shape.inputs(), stage.advance()) {
      const std::uint32_t bytes = min(shape.inputs(), task.inputs - first) * 2;
      wait(ring.empty[stage.at], stage.parity ^ 1);
      if (lane == 0) arrive_expecting(ring.full[stage.at], task.rows * bytes);
      __syncwarp();
      for (std::uint32_t i = 0; i < 2; ++i)
        if (rows[i] != nullptr)
          bulk_copy(ring.stages[stage.at].inputs + (lane + i * kWarp) * shape.row_stride, rows[i] + first,
                    bytes, ring.full[stage.at], policy);
      if (first_task && lane == 0) mark_experts(job, ExpertsMark::kFirstInputs);
      first_task = false;
    }
  }
  if (lane == 0) mark_sum(job, ExpertsMark::kGate, gate.total());
}

}  // namespace lynx::cuda
