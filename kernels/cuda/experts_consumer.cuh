// The consumers' walk through the tasks (products, outputs), and the teller: a warp that lets the other
// blocks know what has been written, so that no consumer waits for memory to confirm it.
#pragma once

#include "kernels/cuda/experts_outputs.cuh"

namespace lynx::cuda {

inline constexpr std::uint32_t kConsumerBarrier = 1, kFinisherBarrier = 2;
inline constexpr std::uint32_t kFinishers = kConsumers + kWarp;  // consumers and teller

__device__ inline void init_outputs(OutputShared& shared) {
  for (std::uint32_t i = 0; i < kTellAhead; ++i) {
    barrier_init(shared.written[i], kConsumers);  // every thread for what it wrote
    barrier_init(shared.told[i], 1);
  }
  shared.finished = 0;
  publish_barriers();
}

class Consumer {
 public:
  __device__ Consumer(const ExpertsJob& job, TaskRing& tasks, StageRing& ring, OutputShared& shared)
      : job_(job), tasks_(tasks), ring_(ring), shared_(shared) {}

  __device__ void run() {
    for (TaskCursor at;; at.advance(), told_.advance()) {
      wait(tasks_.described[at.at], at.parity);
      const TaskSlot& slot = tasks_.slots[at.at];
      const std::uint32_t rows = slot.task.rows;
      if (rows == 0) return;
      if (slot.task.task_units == 1)
        run_task<1, 1>(slot);
      else if (slot.task.task_units == 2)
        run_task<2, 1>(slot);
      else if (rows <= 8)
        run_task<4, 1>(slot);
      else if (rows <= 16)
        run_task<4, 2>(slot);
      else
        rows <= 32 ? run_task<4, 4>(slot) : run_task<4, 6>(slot);
    }
  }

 private:
  template <int kTiles, int kRowTiles>
  __device__ void run_task(const TaskSlot& slot) {
    const Task task = slot.task;
    Products<kTiles, kRowTiles> products;
    multiply(products, ring_, stage_, task.inputs);
    constexpr int kPasses = kTiles == 4 ? 2 : 1;
    constexpr std::uint32_t kOutputs = kTiles == 1 ? 32 : 64;
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        if (n * kRowTile >= task.rows) break;
        // Two buffers: who writes one has passed the barrier after which the other was read, and so has
        // everyone.
        PartialSums& sums = shared_.sums[pass_];
        pass_ ^= 1;
        write_partial(sums, products, pass, n);
        sync_threads<kConsumerBarrier>(kConsumers);
        const Pass now{n * kRowTile, static_cast<std::uint32_t>(pass), kTiles == 4 ? 2U : 1U};
        if (task.down)
          write_weighted<kOutputs>(job_, task, sums, now, slot.targets);
        else
          write_activations<kOutputs>(job_, task, sums, now);
      }
    }
    hand_to_teller(task);
  }

  __device__ void hand_to_teller(const Task& task) {
    if (!task.down) copy_engine_fence();  // what was written here, copy engines will read
    wait(shared_.told[told_.at], told_.parity ^ 1);
    arrive(shared_.written[told_.at]);
  }

  const ExpertsJob& job_;
  TaskRing& tasks_;
  StageRing& ring_;
  OutputShared& shared_;
  StageCursor stage_;
  Cursor<kTellAhead> told_;
  std::uint32_t pass_ = 0;
};

// The last block to have told all of its tasks clears the counters: nobody reads them any more. One thread.
__device__ inline void leave(const ExpertsJob& job, const TaskTables& tables) {
  if (atomicAdd(job.workspace.finished_blocks, 1U) + 1 != gridDim.x) return;
  for (std::uint32_t i = 0; i < tables.experts; ++i) job.workspace.gate_up_done[i] = 0;
  *job.workspace.next_task = 0;
  *job.workspace.finished_blocks = 0;
}

// One warp. Counts finished tasks where all blocks see it, and keeps the outputs whose last task was this
// block's.
__device__ inline void tell(const ExpertsJob& job, const TaskTables& tables, TaskRing& ring,
                            OutputShared& shared) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  Cursor<kTellAhead> told;
  for (TaskCursor at;; at.advance(), told.advance()) {
    wait(ring.described[at.at], at.parity);
    const Task task = ring.slots[at.at].task;
    if (task.rows == 0) break;
    wait(shared.written[told.at], told.parity);
    __syncwarp();  // all lanes have read the task
    if (lane == 0) {
      arrive(shared.told[told.at]);
      arrive(ring.free[at.at]);
    }
    device_fence();
    if (!task.down) {
      if (lane == 0) atomicAdd(&job.workspace.gate_up_done[task.active], 1U);
    } else if (job.sums_here && lane < task.units) {
      std::uint32_t* done = &job.workspace.down_done[task.unit + lane];
      if (atomicAdd(done, 1U) + 1 == tables.row_blocks * job.down.parts) {
        *done = 0;  // for the next launch
        shared.finished_unit[atomicAdd(&shared.finished, 1U)] = static_cast<std::uint16_t>(task.unit + lane);
      }
    }
    __syncwarp();
  }
  device_fence();
  if (lane == 0) leave(job, tables);
}

// Consumers and teller: the weighted sums of the outputs that this block finished.
__device__ inline void add_finished(const ExpertsJob& job, const OutputShared& shared) {
  constexpr std::uint32_t kVectors = kUnitOutputs / 4;
  const std::uint32_t of_unit = job.args.plan.rows * kVectors;
  const std::uint32_t thread = threadIdx.x < kConsumers ? threadIdx.x : threadIdx.x % kWarp + kConsumers;
  for (std::uint32_t i = thread; i < shared.finished * of_unit; i += kFinishers) {
    const std::uint32_t within = i % of_unit;
    add_slots(job, within / kVectors,
              shared.finished_unit[i / of_unit] * kUnitOutputs + within % kVectors * 4);
  }
}

}  // namespace lynx::cuda
