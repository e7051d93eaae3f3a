// Learns, while it serves, what a decode step costs: seconds = a + b * expert bytes read + c * KV bytes read.
// Recursive least squares with forgetting, so that it follows a machine whose neighbours come and go. One
// thread.
#pragma once

#include <array>
#include <cstdint>

namespace lynx {

struct StepWork {
  double expert_bytes = 0;  // of the experts that the step activated, all layers
  double kv_bytes = 0;      // of the cached tokens that its attention read, all layers
};

class StepCost {
 public:
  // memory: after how many steps a sample has lost 63 % of its weight.
  explicit StepCost(double memory = 500);

  void observe(const StepWork& work, double seconds);

  // Never negative; 0 before the first sample.
  double predict(const StepWork& work) const;
  double fixed_seconds() const { return weights_[0]; }                     // a
  double seconds_per_expert_byte() const { return weights_[1] / kScale; }  // b
  double seconds_per_kv_byte() const { return weights_[2] / kScale; }      // c
  std::uint64_t samples() const { return samples_; }

 private:
  static constexpr int kTerms = 3;
  static constexpr double kScale =
      1e6;  // features in megabytes: keeps the three terms of one order of magnitude
  using Vector = std::array<double, kTerms>;

  static Vector features(const StepWork& work) {
    return {1, work.expert_bytes / kScale, work.kv_bytes / kScale};
  }

  const double forgetting_;
  Vector weights_{};
  std::array<Vector, kTerms> covariance_{};
  std::uint64_t samples_ = 0;
};

}  // namespace lynx
