// The consumers' walk through the tasks: products, outputs, and telling the other blocks. Thread 0 does the
// telling, while the other warps go on to the next task; whether a down task was the last of its outputs is
// looked at one task later, so that nobody waits for the answer of the counter.
#pragma once

#include "kernels/cuda/experts_outputs.cuh"

namespace lynx::cuda {

class Consumer {
 public:
  __device__ Consumer(const ExpertsJob& job, const TaskTables& tables, Ring& ring, OutputShared& shared)
      : job_(job), tables_(tables), ring_(ring), shared_(shared) {}

  __device__ void run() {
    std::uint32_t turn = 0;
    for (std::uint32_t index = blockIdx.x; index < tables_.tasks; index += gridDim.x, turn ^= 1) {
      const Task task = locate_task(job_, tables_, index);
      load_targets(job_, task, shared_.pairs[turn]);
      if (task.task_units == 1)
        run_task<1, 1>(task, turn);
      else if (task.task_units == 2)
        task.rows <= 8 ? run_task<2, 1>(task, turn) : run_task<2, 2>(task, turn);
      else
        task.rows <= 32 ? run_task<4, 4>(task, turn) : run_task<4, 6>(task, turn);
    }
    publish_verdict();
    sync_threads(kConsumers);
    add_finished();
    leave();
  }

 private:
  template <int kTiles, int kRowTiles>
  __device__ void run_task(const Task& task, std::uint32_t turn) {
    Products<kTiles, kRowTiles> products;
    multiply(products, ring_, at_, matrix_of(job_, task).inputs);
    publish_verdict();
    constexpr int kPasses = kTiles == 4 ? 2 : 1;
    constexpr std::uint32_t kOutputs = kTiles == 1 ? 32 : 64;
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        if (n * kRowTile >= task.rows) break;
        if (n + pass > 0) sync_threads(kConsumers);  // the sums of the pass before have been read
        write_partial(shared_.sums, products, pass, n);
        sync_threads(kConsumers);
        const Pass now{n * kRowTile, static_cast<std::uint32_t>(pass), kTiles == 4 ? 2U : 1U};
        if (task.down)
          write_weighted<kOutputs>(job_, task, shared_.sums, now, shared_.pairs[turn]);
        else
          write_activations<kOutputs>(job_, task, shared_.sums, now);
      }
    }
    if (!task.down) copy_engine_fence();  // what was written here, copy engines will read
    add_finished();
    sync_threads(kConsumers);
    if (threadIdx.x == 0) tell(task);
  }

  // Thread 0, when every consumer has written the task's outputs.
  __device__ void tell(const Task& task) {
    __threadfence();
    if (!task.down) {
      atomicAdd(&job_.workspace.gate_up_done[task.active], 1U);
    } else if (job_.sums_here) {
      pending_unit_ = task.unit;
      pending_units_ = task.units;
#pragma unroll
      for (std::uint32_t u = 0; u < kTaskUnits; ++u)
        if (u < task.units) pending_[u] = atomicAdd(&job_.workspace.down_done[task.unit + u], 1U);
    }
  }

  // Thread 0: the counters' answers to the task before, for all to read after the next sync_threads.
  __device__ void publish_verdict() {
    if (threadIdx.x != 0) return;
    std::uint32_t last = 0;
#pragma unroll
    for (std::uint32_t u = 0; u < kTaskUnits; ++u) {
      if (u >= pending_units_ || pending_[u] + 1 != tables_.row_blocks) continue;
      last |= 1U << u;
      job_.workspace.down_done[pending_unit_ + u] = 0;  // for the next launch
    }
    shared_.last_units = last;
    shared_.last_unit = pending_unit_;
    pending_units_ = 0;
  }

  __device__ void add_finished() {
    const std::uint32_t last = shared_.last_units;
    if (last == 0) return;
    __threadfence();
    for (std::uint32_t u = 0; u < kTaskUnits; ++u)
      if ((last >> u & 1) != 0) add_slots(job_, shared_.last_unit + u);
  }

  // The last block to leave clears the counters: nobody reads them any more.
  __device__ void leave() {
    if (threadIdx.x != 0) return;
    if (atomicAdd(job_.workspace.finished_blocks, 1U) + 1 != gridDim.x) return;
    for (std::uint32_t i = 0; i < tables_.experts; ++i) job_.workspace.gate_up_done[i] = 0;
    *job_.workspace.finished_blocks = 0;
  }

  const ExpertsJob& job_;
  const TaskTables& tables_;
  Ring& ring_;
  OutputShared& shared_;
  Cursor at_;
  std::uint32_t pending_[kTaskUnits] = {};  // thread 0
  std::uint32_t pending_unit_ = 0;
  std::uint32_t pending_units_ = 0;
};

}  // namespace lynx::cuda
