// The receipt of a request (lynx.receipt): what sharing decode steps with others did to it, summed from what
// the decode workers tell of each step. The first token of an attempt comes of prefill, which is exact, and
// counts nowhere. One thread.
#pragma once

#include <cstdint>

#include "services/engine/step_receipt.h"

namespace lynx {

class Receipt {
 public:
  void add(const StepReceipt& step);
  void add(const Receipt& other);  // of another choice of the request

  std::uint64_t steps() const { return steps_; }
  // Of no steps: nothing remapped, all mass kept, no batch.
  double remapped_share() const;     // of assignments
  double router_mass_mean() const;   // of the exact top-k's probability, what was kept; [0, 1]
  double router_mass_worst() const;  // of one step
  double batch_mean() const;         // sequences of a step, this one among them
  std::uint32_t batch_max() const { return batch_max_; }

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t assignments_ = 0;
  std::uint64_t remapped_ = 0;
  double mass_ = 0;
  float worst_mass_ = 1;
  std::uint64_t batches_ = 0;
  std::uint32_t batch_max_ = 0;
};

}  // namespace lynx
