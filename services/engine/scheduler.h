// Decides which sequences take part in the next step, and with how many tokens. Pure: no IO, no device, no
// clock of its own; the engine thread owns it and applies what it plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/core/clock.h"
#include "services/engine/sequence.h"

namespace lynx {

struct StepSlice {
  Sequence* sequence = nullptr;
  std::uint32_t rows = 0;  // its next uncached tokens
};

struct StepPlan {
  Phase phase = Phase::kDecode;
  std::vector<StepSlice> slices;    // empty: nothing to do
  std::vector<SequenceId> expired;  // past their deadline: to be removed; not in slices
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual void add(Sequence sequence) = 0;
  virtual std::optional<Sequence> remove(SequenceId id) = 0;  // empty: unknown
  virtual const Sequence* find(SequenceId id) const = 0;      // null: unknown; valid until it is removed
  virtual StepPlan plan(Clock::time_point now) = 0;  // pointers are valid until that sequence is removed
  virtual std::size_t size() const = 0;
};

struct BatchLimits {
  std::uint32_t max_batch = 16;      // sequences of a step
  std::uint32_t chunk_tokens = 512;  // rows of a prefill step
};

// Continuous batching: a sequence joins at the next step and leaves the moment it ends. Prompts go first, the
// earliest deadline before the others, several to a step while the chunk lasts. Decode slots go by order of
// arrival and are kept to the end, and the blocks of a sequence are leased for its whole length before it
// starts: nothing that runs is ever preempted, for a slot or for memory.
class BatchScheduler final : public Scheduler {
 public:
  explicit BatchScheduler(const BatchLimits& limits) : limits_(limits) {}

  void add(Sequence sequence) override;
  std::optional<Sequence> remove(SequenceId id) override;
  const Sequence* find(SequenceId id) const override;
  StepPlan plan(Clock::time_point now) override;
  std::size_t size() const override { return sequences_.size(); }

 private:
  void plan_prefill(std::vector<Sequence*>& waiting, StepPlan& plan) const;

  const BatchLimits limits_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // by arrival
};

}  // namespace lynx
