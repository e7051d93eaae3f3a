// The consumers' walk through the tasks (products, outputs), and the teller: a warp that lets the other
// blocks know what has been written, so that no consumer waits for memory to confirm it.
#pragma once

#include "kernels/cuda/experts_outputs.cuh"
#include "kernels/cuda/experts_tables.cuh"

namespace lynx::cuda {

// All consumers have written a task's outputs: barriers kWrittenBarrier on, in turn. (The barriers of shared
// memory would have 256 arrivals to count one by one.)
inline constexpr std::uint32_t kConsumerBarrier = 1, kFinisherBarrier = 2, kWrittenBarrier = 3;
inline constexpr std::uint32_t kFinishers = kConsumers + kWarp;  // consumers and teller

__device__ inline void init_outputs(OutputShared& shared) {
#pragma unroll 1
  for (std::uint64_t& told : shared.told) barrier_init(told, 1);
  shared.finished = 0;
  publish_barriers();
}

class Consumer {
 public:
  __device__ Consumer(const ExpertsJob& job, TaskRing& tasks, StageRing& ring, OutputShared& shared)
      : job_(job), tasks_(tasks), ring_(ring), shared_(shared) {}

  __device__ void run() {
    Products products{};  // what a task does not use stays as it was
    for (TaskCursor at;; at.advance(), told_.advance()) {
      wait_task_.start();
      wait(tasks_.described[at.at], at.parity);
      wait_task_.stop();
      const TaskSlot& slot = tasks_.slots[at.at];
      if (slot.task.rows == 0) break;
      multiply_task(products, slot.task);
      write_task(products, slot);
    }
    if (threadIdx.x == 0) mark_sums();
  }

 private:
  template <int kTiles, int kRowTiles>
  __device__ void multiply_as(Products& products, const Task& task) {
    multiply<kTiles, kRowTiles>(products, ring_, stage_, task.inputs, wait_stage_);
  }
  __device__ void multiply_task(Products& products, const Task& task) {
    const std::uint32_t rows = task.rows;
    if (task.task_units == 1)
      multiply_as<1, 1>(products, task);
    else if (task.task_units == 2)
      rows <= 8 ? multiply_as<2, 1>(products, task) : multiply_as<2, 2>(products, task);
    else if (rows <= 8)
      multiply_as<4, 1>(products, task);
    else if (rows <= 16)
      multiply_as<4, 2>(products, task);
    else
      rows <= 32 ? multiply_as<4, 4>(products, task) : multiply_as<4, 6>(products, task);
  }

  __device__ void write_task(const Products& products, const TaskSlot& slot) {
    const Task task = slot.task;  // at once, before barriers
    outputs_.start();
    if (threadIdx.x == 0) mark_experts(job_, ExpertsMark::kLastFull);
    if (first_ && threadIdx.x == 0) mark_experts(job_, ExpertsMark::kFirstTask);
    first_ = false;
    const std::uint32_t passes = task.task_units == kTaskUnits ? 2 : 1;
#pragma unroll 1
    for (std::uint32_t n = 0; n * kRowTile < task.rows; ++n) {
#pragma unroll 1
      for (std::uint32_t pass = 0; pass < passes; ++pass) {
        // Two buffers: who writes one has passed the barrier after which the other was read, and so has
        // everyone.
        PartialSums& sums = shared_.sums[pass_];
        pass_ ^= 1;
        write_partial(sums, products, pass, n, task.task_units == 1);
        sync_threads(kConsumerBarrier, kConsumers);
        const Pass now{n * kRowTile, pass, passes};
        if (task.down)
          write_weighted(job_, task, sums, now, slot.targets);
        else
          write_activations(job_, task, sums, now);
      }
    }
    outputs_.stop();
    wait_teller_.start();
    hand_to_teller(task);
    wait_teller_.stop();
  }

  __device__ void mark_sums() const {
    mark_experts(job_, ExpertsMark::kWritten);
    mark_sum(job_, ExpertsMark::kFirstFull, wait_stage_.first());
    mark_sum(job_, ExpertsMark::kWaitTask, wait_task_.total());
    mark_sum(job_, ExpertsMark::kWaitStage, wait_stage_.total());
    mark_sum(job_, ExpertsMark::kOutputs, outputs_.total());
    mark_sum(job_, ExpertsMark::kWaitTeller, wait_teller_.total());
  }

  __device__ void hand_to_teller(const Task& task) {
    if (!task.down) copy_engine_fence();  // what was written here, copy engines will read
    wait(shared_.told[told_.at], told_.parity ^ 1);
    arrive_at(kWrittenBarrier + told_.at, kFinishers);
  }

  const ExpertsJob& job_;
  TaskRing& tasks_;
  StageRing& ring_;
  OutputShared& shared_;
  StageCursor stage_;
  Cursor<kTellAhead> told_;
  std::uint32_t pass_ = 0;
  bool first_ = true;
  Stopwatch wait_task_{job_.args.timeline != nullptr};
  Stopwatch wait_stage_{job_.args.timeline != nullptr};
  Stopwatch outputs_{job_.args.timeline != nullptr};
  Stopwatch wait_teller_{job_.args.timeline != nullptr};
};

// The last block to have told all of its tasks clears the counters: nobody reads them any more. The teller.
__device__ inline std::uint32_t count_leaving(const ExpertsJob& job) {
  return threadIdx.x % kWarp == 0 ? atomicAdd(job.workspace.finished_blocks, 1U) + 1 : 0;
}
__device__ inline void leave(const ExpertsJob& job, std::uint32_t experts, std::uint32_t left) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  if (__shfl_sync(kAllLanes, left, 0) != gridDim.x) return;
#pragma unroll 1
  for (std::uint32_t i = lane; i < experts; i += kWarp) job.workspace.gate_up_done[i] = 0;
#pragma unroll 1
  for (std::uint32_t i = lane; i < kPlanHints; i += kWarp) job.args.plan.hints[i] = 0;
  if (lane != 0) return;
  *job.workspace.next_task = 0;
  *job.workspace.finished_blocks = 0;
}

// One warp. Counts finished tasks where all blocks see it, and keeps the outputs whose last task was this
// block's.
class Teller {
 public:
  __device__ Teller(const ExpertsJob& job, const TaskTables& tables, TaskRing& ring, OutputShared& shared)
      : job_(job), tables_(tables), ring_(ring), shared_(shared) {}

  __device__ void run() {
    for (TaskCursor at;; at.advance(), told_.advance()) {
      wait(ring_.described[at.at], at.parity);
      const Task task = ring_.slots[at.at].task;
      if (task.rows == 0) break;
      wait_at(kWrittenBarrier + told_.at, kFinishers);
      ++tasks_;
      if (lane_ == 0) {
        arrive(shared_.told[told_.at]);
        arrive(ring_.free[at.at]);
      }
      keep_finished();
      device_fence();
      task.down ? tell_down(task) : tell_gate_up(task);
    }
    keep_finished();
    device_fence();
    if (lane_ != 0) return;
    mark_experts(job_, ExpertsMark::kTold);
    mark_sum(job_, ExpertsMark::kTasks, tasks_);
  }

 private:
  __device__ void tell_gate_up(const Task& task) {
    if (lane_ != 0) return;
    atomicAdd(&job_.workspace.gate_up_done[task.active], 1U);
    mark_experts(job_, ExpertsMark::kGateUpTold);
  }
  __device__ void tell_down(const Task& task) {
    if (!job_.sums_here || lane_ >= task.units) return;
    unit_ = task.unit + lane_;
    done_ = atomicAdd(&job_.workspace.down_done[unit_], 1U) + 1;
  }
  // What the last count of tell_down said: looked at as late as can be, for it takes its time.
  __device__ void keep_finished() {
    if (done_ != 0 && done_ == tables_.row_blocks * job_.down.parts) {
      job_.workspace.down_done[unit_] = 0;  // for the next launch
      shared_.finished_unit[atomicAdd(&shared_.finished, 1U)] = static_cast<std::uint16_t>(unit_);
    }
    done_ = 0;
  }

  const ExpertsJob& job_;
  const TaskTables& tables_;
  TaskRing& ring_;
  OutputShared& shared_;
  const std::uint32_t lane_ = threadIdx.x % kWarp;
  Cursor<kTellAhead> told_;
  std::uint32_t unit_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t tasks_ = 0;
};

// Consumers and teller: the weighted sums of the outputs that this block finished.
__device__ inline void add_finished(const ExpertsJob& job, const OutputShared& shared) {
  constexpr std::uint32_t kVectors = kUnitOutputs / 4;
  const std::uint32_t of_unit = job.args.plan.rows * kVectors;
  const std::uint32_t thread = threadIdx.x < kConsumers ? threadIdx.x : threadIdx.x % kWarp + kConsumers;
#pragma unroll 1
  for (std::uint32_t i = thread; i < shared.finished * of_unit; i += kFinishers) {
    const std::uint32_t within = i % of_unit;
    add_slots(job, within / kVectors,
              shared.finished_unit[i / of_unit] * kUnitOutputs + within % kVectors * 4);
  }
}

}  // namespace lynx::cuda
