// How far remapping moves what a served model says, and what keeps it within a limit. On a share of the
// decode steps one row is also computed alone, with all its experts; the two distributions are compared. When
// the mean divergence of the last samples passes the limit, the policy is tightened by one step: fewer
// assignments move. Far below the limit it is relaxed again, step by step, to what was configured.
//
// What it costs: a step of one row is never dearer than the step beside it, so a sample in 256 steps takes
// less than 0.4 % of the time.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/lynx/policy.h"

namespace lynx {

struct DriftLimits {
  std::uint32_t sample_every = 0;  // decode steps that remap; 0 = never
  float kl = 0.5F;                 // nats per token, mean of recent samples
};

struct DriftSample {
  double kl = 0;         // of the exact distribution from the one served
  bool flipped = false;  // another first token
};

// logits [vocab] of one row, exact and served. Rows that hold NaN or +inf say nothing: kl 0, not flipped.
DriftSample compare_logits(std::span<const float> exact, std::span<const float> served);

// The policy `level` steps tighter: a wider window, a lower threshold, more ranks or budget; from
// kDriftLevels on, off.
constexpr std::uint32_t kDriftLevels = 6;
RoutePolicy tightened(const RoutePolicy& policy, const RouterShape& shape, std::uint32_t level);

// Engine thread.
class DriftGuard {
 public:
  DriftGuard(const DriftLimits& limits, const RoutePolicy& policy, const RouterShape& shape)
      : limits_(limits), configured_(policy), shape_(shape), policy_(policy) {}

  // Asked once for each decode step of `rows` rows: whether this one is sampled.
  bool samples_step(std::uint32_t rows);
  // True when the policy has changed.
  bool observe(const DriftSample& sample);

  const RoutePolicy& policy() const { return policy_; }
  std::uint32_t level() const { return level_; }
  double judged_kl() const { return judged_; }  // the mean that the last observe() judged

 private:
  void set_level(std::uint32_t level);

  const DriftLimits limits_;
  const RoutePolicy configured_;
  const RouterShape shape_;
  RoutePolicy policy_;
  std::uint32_t level_ = 0;
  std::uint32_t steps_ = 0;    // since the last sample
  std::uint32_t samples_ = 0;  // since the last change
  double mean_ = 0;            // over about the last kMemory samples
  double judged_ = 0;
};

}  // namespace lynx
