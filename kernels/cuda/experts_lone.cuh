// What the blocks of the kernel for a lone row share out, tell one another, and stream.
#pragma once

#include "kernels/cuda/experts_pipeline.cuh"
#include "kernels/cuda/experts_products.cuh"

namespace lynx::cuda::lone {

inline constexpr std::uint32_t kWeightStages = 6;  // of up to four units of outputs by 128 inputs
inline constexpr std::uint32_t kStageBytes = kTaskUnits * kUnitBytes;
inline constexpr std::uint32_t kMostHidden = 8192;
inline constexpr std::uint32_t kMostIntermediate = 4096;
inline constexpr std::uint32_t kMostOutputs = 512;  // of a block

struct Job {
  ExpertsArgs args;
  MatrixLayout gate_up, down;
  std::uint32_t blocks_of_slot;
  std::uint64_t* blocks;  // see ExpertsWorkspace
  std::uint64_t* activations;
  std::uint64_t* outputs;
};

// A block has one slot of the row, and so one expert: a run of its units in either matrix.
struct Units {
  std::uint32_t first, end;
  __device__ Units(const MatrixLayout& m, std::uint32_t part, std::uint32_t parts)
      : first(m.unit_rows * part / parts), end(m.unit_rows * (part + 1) / parts) {}
};
struct Place {
  std::uint32_t slot, part;
  Units gate_up, down;
  __device__ explicit Place(const Job& job)
      : slot(blockIdx.x / job.blocks_of_slot),
        part(blockIdx.x % job.blocks_of_slot),
        gate_up(job.gate_up, part, job.blocks_of_slot),
        down(job.down, part, job.blocks_of_slot) {}
};

struct Shared {
  std::byte stages[kWeightStages][kStageBytes];
  std::byte row[kMostHidden * 2];  // bf16
  std::byte activations[kMostIntermediate * 2];
  float sums[2][kQuarters][kTaskUnits * kUnitOutputs];
  float outputs[kMostOutputs + kWarp];  // of all slots, those that the block adds up
  std::uint64_t full[kWeightStages];    // the weights have landed
  std::uint64_t empty[kWeightStages];   // every lane of the consumers is done with them
  std::uint64_t begun;                  // `asked` is there
  std::uint64_t planned;                // so is `expert`
  std::uint64_t tagged;                 // so is `tag`
  std::uint32_t asked;                  // the expert whose weights were asked for first
  std::uint32_t expert;                 // the slot's
  std::uint32_t slots;                  // bit i: slot i has an expert
  std::uint32_t tag;                    // of this launch
  float weight;
};

// Words that carry their own news: who reads one sees by its tag whether it is this launch's. So nobody has
// to fence, count and be told.
__device__ inline std::uint64_t tagged(std::uint32_t value, std::uint32_t tag) {
  return std::uint64_t{tag} << 32 | value;
}
__device__ inline void post(std::uint64_t* to, std::uint64_t word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
// Until it is there: one word, or two side by side at a multiple of 16 bytes.
__device__ inline std::uint32_t receive(const Job& job, const std::uint64_t* at, std::uint32_t tag) {
  std::uint64_t word;
  wait_for_blocks(
      [&] {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
        return word >> 32 == tag;
      },
      job.args.long_wait, LongWait::kGateUp);
  return static_cast<std::uint32_t>(word);
}
__device__ inline uint2 receive_two(const Job& job, const std::uint64_t* at, std::uint32_t tag) {
  std::uint64_t first, second;
  wait_for_blocks(
      [&] {
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(first), "=l"(second)
                     : "l"(at)
                     : "memory");
        return first >> 32 == tag && second >> 32 == tag;
      },
      job.args.long_wait, LongWait::kGateUp);
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)};
}

// The stages of a block, in the order in which they are multiplied.
class Walk {
 public:
  __device__ Walk(const Job& job, const Place& place) : job_(job), place_(place) { restart(); }

  __device__ void restart() {
    down_ = false;
    col_ = 0;
    unit_ = place_.gate_up.first;
    end_ = place_.gate_up.end;
  }
  __device__ bool done() const { return unit_ >= end_; }
  __device__ const MatrixLayout& matrix() const { return down_ ? job_.down : job_.gate_up; }
  __device__ std::uint32_t unit() const { return unit_; }
  __device__ std::uint32_t col() const { return col_; }
  __device__ std::uint32_t units() const { return min(kTaskUnits, end_ - unit_); }
  __device__ void next() {
    if (++col_ < matrix().unit_cols) return;
    col_ = 0;
    unit_ += kTaskUnits;
    if (unit_ < end_ || down_) return;
    down_ = true;
    unit_ = place_.down.first;
    end_ = place_.down.end;
  }

 private:
  const Job& job_;
  const Place& place_;
  bool down_;
  std::uint32_t unit_, end_, col_;
};

// At which routing hints, or the plan's, whichever is there first; beyond the layer's experts: none. A hint
// is looked at while routing still runs: see DevicePlan::hints.
__device__ inline std::uint32_t first_expert(const Job& job, const Place& place, Shared& s) {
  for (;;) {
    if (has_completed(s.planned, 0)) break;
    const std::uint32_t hint = place.slot < kPlanHints ? load_relaxed(job.args.plan.hints + place.slot) : 0;
    if (hint != 0 && hint <= job.args.shape.experts) return hint - 1;
  }
  wait(s.planned, 0);
  return s.expert;
}

__device__ inline void ask_for(const Job& job, const Walk& walk, std::uint32_t expert, std::byte* to,
                               std::uint64_t& full, std::uint64_t policy) {
  const MatrixLayout& m = walk.matrix();
  const std::size_t expert_bytes = matrix_bytes(job.gate_up) + matrix_bytes(job.down);
  const std::byte* const from = job.args.packed + expert * expert_bytes + m.expert_offset;
  const std::uint32_t units = walk.units();
  const std::uint32_t here = min(units, kGroupUnits - walk.unit() % kGroupUnits);  // in its group
  arrive_expecting(full, units * kUnitBytes);
  bulk_copy(to, from + unit_offset(m, walk.unit(), walk.col()), here * kUnitBytes, full, policy);
  if (here == units) return;
  bulk_copy(to + here * kUnitBytes, from + unit_offset(m, walk.unit() + here, walk.col()),
            (units - here) * kUnitBytes, full, policy);
}

// One thread. No stage is free before the plan is there: so only then, with all stages asked for, it looks
// whether they were those of the right expert. If not, it begins again, and the consumers pass over them.
__device__ inline void produce(const Job& job, const Place& place, Shared& s) {
  const std::uint64_t policy = evict_first_policy();
  const std::uint32_t experts = job.args.shape.experts;
  std::uint32_t expert = first_expert(job, place, s);
  s.asked = expert;
  arrive(s.begun);
  if (expert >= experts) return;
  mark_now(job.args.timeline, ExpertsMark::kFirstIssue);
  Walk walk(job, place);
  Cursor<kWeightStages> at, landed;
#pragma unroll 1
  for (std::uint32_t issued = 0; !walk.done(); ++issued, walk.next(), at.advance()) {
    if (issued == kWeightStages) {
      wait(s.planned, 0);
      if (s.expert != expert) walk.restart();
      expert = s.expert;
      if (expert >= experts) return;
    }
    wait(s.empty[at.at], at.parity ^ 1);
    if (issued >= kInFlight) {
      wait(s.full[landed.at], landed.parity);
      landed.advance();
    }
    ask_for(job, walk, expert, s.stages[at.at], s.full[at.at], policy);
  }
  mark_now(job.args.timeline, ExpertsMark::kLastIssue);
}

}  // namespace lynx::cuda::lone
