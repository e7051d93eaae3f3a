// What the consumers of a block do for a lone row: they read the plan, multiply, exchange results with other
// blocks and add the slots up.
#pragma once

#include "kernels/cuda/experts_lone.cuh"
#include "kernels/cuda/silu.cuh"

namespace lynx::cuda::lone {

inline constexpr std::uint32_t kConsumerBarrier = 1;

// This block's part of the outputs that one block of each slot has.
struct Sum {
  std::uint32_t column, count;
  __device__ Sum(const Place& place, std::uint32_t slots) {
    const std::uint32_t all = (place.down.end - place.down.first) * kUnitOutputs;
    const std::uint32_t from = all * place.slot / slots;
    column = place.down.first * kUnitOutputs + from;
    count = all * (place.slot + 1) / slots - from;
  }
};

class Consumer {
 public:
  __device__ Consumer(const Job& job, const Place& place, Shared& s)
      : job_(job), plan_(job.args.plan), place_(place), s_(s), sum_(place, job.args.plan.top_k) {}

  __device__ void run() {
    read_plan();
    pass_over_others();
    if (has_expert()) {
      multiply<false>();
      fetch_activations();
      multiply<true>();
    }
    mark(ExpertsMark::kWritten);
    add_slots();
  }

 private:
  static __device__ bool exists(std::uint32_t expert) { return expert != ExpertPlan::kNoExpert; }
  __device__ bool has_expert() const { return exists(s_.expert); }
  __device__ void mark(ExpertsMark mark) const {
    if (thread_ == 0) mark_now(job_.args.timeline, mark);
  }

  // The slot's expert and weight, the row, and this launch's tag, for which the blocks of all launches are
  // counted.
  __device__ void read_plan() {
    if (warp_index() == 0) {
      std::uint32_t expert = ExpertPlan::kNoExpert;
      float weight = 0;
      if (lane_ < plan_.top_k) expert = plan_.expert_of[lane_], weight = plan_.weight_of[lane_];
      const std::uint32_t slots = __ballot_sync(kAllLanes, exists(expert));
      if (lane_ == place_.slot) s_.expert = expert, s_.weight = weight, s_.slots = slots;
    }
    if (thread_ < sum_.count) old_ = job_.args.out[sum_.column + thread_];
#pragma unroll 1
    for (std::uint32_t i = thread_; i < job_.args.shape.hidden / 8; i += kConsumers)
      reinterpret_cast<uint4*>(s_.row)[i] = reinterpret_cast<const uint4*>(job_.args.x)[i];
    sync_threads(kConsumerBarrier, kConsumers);
    if (thread_ == place_.slot) arrive(s_.planned);
    mark(ExpertsMark::kFirstFound);
    if (thread_ == kConsumers - 1) {
      const unsigned long long before = atomicAdd(reinterpret_cast<unsigned long long*>(job_.blocks), 1ULL);
      s_.tag = static_cast<std::uint32_t>(before / gridDim.x) + 1;
      arrive(s_.tagged);
    }
    wait(s_.begun, 0);
  }

  __device__ void pass_over_others() {
    if (s_.asked == s_.expert || s_.asked >= job_.args.shape.experts) return;
#pragma unroll 1
    for (std::uint32_t i = 0; i < kWeightStages; ++i) {
      wait(s_.full[at_.at], at_.parity);
      leave_stage();
    }
  }
  __device__ void leave_stage() {
    arrive(s_.empty[at_.at]);
    at_.advance();
  }

  // All outputs of the block in one of the matrices, up to four units at a time.
  template <bool kDown>
  __device__ void multiply() {
    const MatrixLayout& m = kDown ? job_.down : job_.gate_up;
    const Units units = kDown ? place_.down : place_.gate_up;
#pragma unroll 1
    for (std::uint32_t unit = units.first; unit < units.end; unit += kTaskUnits) {
      const std::uint32_t count = min(kTaskUnits, units.end - unit);
      multiply_units(m, count, kDown ? s_.activations : s_.row);
      mark(kDown ? ExpertsMark::kLastFull : ExpertsMark::kFirstTask);
      if (unit == units.first && !kDown) wait(s_.tagged, 0);
      kDown ? post_outputs(unit, count) : post_activations(unit, count);
      pass_ ^= 1;
    }
    if (!kDown) mark(ExpertsMark::kGateUpTold);
  }

  __device__ void multiply_units(const MatrixLayout& m, std::uint32_t units, const std::byte* inputs) {
    const std::uint32_t quarter = warp_index() % kQuarters;
    const std::uint32_t half = warp_index() / kQuarters;
    const std::byte* input = inputs + quarter * kBlockInputs * 2 + lane_ % 4 * 16;
    float sum[kTaskUnits][4] = {};
#pragma unroll 1
    for (std::uint32_t col = 0; col < m.unit_cols; ++col, input += kUnitInputs * 2) {
      wait(s_.full[at_.at], at_.parity);
      if (first_) mark(ExpertsMark::kFirstFull);
      first_ = false;
      const uint4 b = load_shared(input);  // the same for all eight rows: one of them counts
      const std::byte* const weights = s_.stages[at_.at] + quarter * 2048 + half * 1024 + lane_ * 16;
#pragma unroll
      for (std::uint32_t unit = 0; unit < kTaskUnits; ++unit) {
        if (unit >= units) break;
        const uint4 low = load_shared(weights + unit * kUnitBytes);
        const uint4 high = load_shared(weights + unit * kUnitBytes + 512);
        mma_16816(sum[unit], low.x, low.y, low.z, low.w, b.x, b.y);
        mma_16816(sum[unit], high.x, high.y, high.z, high.w, b.z, b.w);
      }
      leave_stage();
    }
    float* const to = &s_.sums[pass_][quarter][half * 16 + lane_ / 4];
    if (lane_ % 4 == 0) {
#pragma unroll
      for (std::uint32_t unit = 0; unit < kTaskUnits; ++unit) {
        to[unit * kUnitOutputs] = sum[unit][0];
        to[unit * kUnitOutputs + 8] = sum[unit][2];
      }
    }
    sync_threads(kConsumerBarrier, kConsumers);
  }
  __device__ float total(std::uint32_t output) const {
    const auto& at = s_.sums[pass_];
    return (at[0][output] + at[1][output]) + (at[2][output] + at[3][output]);
  }

  // Thread t: feature t of 16 a unit.
  __device__ void post_activations(std::uint32_t first_unit, std::uint32_t units) {
    if (thread_ >= kTaskUnits * 16) return;
    const std::uint32_t output = thread_ / 16 * kUnitOutputs + thread_ % 16;
    const float gate = total(output);
    const float mine = silu(gate) * total(output + 16);
    const float next = __shfl_down_sync(kAllLanes, mine, 1);
    if (thread_ % 2 != 0 || thread_ >= units * 16) return;
    const std::size_t at = (place_.slot * job_.args.shape.intermediate + first_unit * 16 + thread_) / 2;
    post(job_.activations + at, tagged(pack_bf16(mine, next), s_.tag));
  }
  __device__ void fetch_activations() {
    const std::uint32_t pairs = job_.args.shape.intermediate / 4;
    const std::uint64_t* const from = job_.activations + std::size_t{place_.slot} * pairs * 2;
#pragma unroll 1
    for (std::uint32_t i = thread_; i < pairs; i += kConsumers)
      reinterpret_cast<uint2*>(s_.activations)[i] = receive_two(job_, from + 2 * i, s_.tag);
    sync_threads(kConsumerBarrier, kConsumers);
    mark(ExpertsMark::kDownReady);
  }

  __device__ void post_outputs(std::uint32_t first_unit, std::uint32_t units) {
    if (thread_ >= units * kUnitOutputs) return;
    const std::size_t at = place_.slot * job_.args.shape.hidden + first_unit * kUnitOutputs + thread_;
    post(job_.outputs + at, tagged(__float_as_uint(s_.weight * total(thread_)), s_.tag));
  }

  __device__ void add_slots() {
    const std::uint32_t all = plan_.top_k * sum_.count;
    wait(s_.tagged, 0);
#pragma unroll 1
    for (std::uint32_t i = thread_; i < all; i += kConsumers) {
      const std::uint32_t slot = i / sum_.count;
      const std::uint32_t output = i - slot * sum_.count;
      const std::uint64_t* const at = job_.outputs + slot * job_.args.shape.hidden + sum_.column + output;
      if (has_slot(slot)) s_.outputs[i] = __uint_as_float(receive(job_, at, s_.tag));
    }
    sync_threads(kConsumerBarrier, kConsumers);
    mark(ExpertsMark::kTold);
    if (place_.part == 0 && thread_ == 0 && place_.slot < kPlanHints)
      plan_.hints[place_.slot] = 0;  // every block of the slot has begun: this one has their activations
    if (thread_ >= sum_.count || !has_slot(0)) return;  // without a first slot: padding
    float sum = 0;
#pragma unroll 1
    for (std::uint32_t slot = 0; slot < plan_.top_k; ++slot)
      if (has_slot(slot)) sum += s_.outputs[slot * sum_.count + thread_];
    job_.args.out[sum_.column + thread_] = old_ + sum;
  }
  __device__ bool has_slot(std::uint32_t slot) const { return (s_.slots >> slot & 1) != 0; }

  const Job& job_;
  const DevicePlan& plan_;
  const Place& place_;
  Shared& s_;
  const Sum sum_;
  const std::uint32_t thread_ = threadIdx.x;
  const std::uint32_t lane_ = threadIdx.x % kWarp;
  Cursor<kWeightStages> at_;
  float old_ = 0;  // of the output that this thread adds to
  std::uint32_t pass_ = 0;
  bool first_ = true;
};

}  // namespace lynx::cuda::lone
