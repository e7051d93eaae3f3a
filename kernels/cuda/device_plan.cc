#include "kernels/cuda/device_plan.h"

namespace lynx::cuda {
namespace {

constexpr std::size_t kAlign = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Hands out parts of a block one after the other.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}

  template <typename T>
  T* take(std::size_t count) {
    auto* part = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += aligned(count * sizeof(T));
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

// What does not depend on the rows comes first, so that statistics stay in place when the bucket changes.
DevicePlan carve(Carver& carver, const RouterShape& shape, std::uint32_t rows) {
  DevicePlan plan;
  plan.rows = rows;
  plan.top_k = shape.top_k;
  plan.experts = shape.experts;
  const std::size_t pairs = std::size_t{rows} * shape.top_k;
  plan.stats = carver.take<DevicePlanStats>(1);
  plan.hints = carver.take<std::uint32_t>(kPlanHints);
  plan.count = carver.take<std::uint32_t>(1);
  plan.active = carver.take<std::uint32_t>(shape.experts);
  plan.offsets = carver.take<std::uint32_t>(shape.experts + 1);
  plan.expert_of = carver.take<std::uint32_t>(pairs);
  plan.weight_of = carver.take<float>(pairs);
  plan.row_of = carver.take<std::uint32_t>(pairs);
  plan.slot_of = carver.take<std::uint32_t>(pairs);
  plan.pair_weight = carver.take<float>(pairs);
  plan.row_stats = carver.take<DevicePlanRow>(rows);
  return plan;
}

}  // namespace

std::size_t device_plan_bytes(const RouterShape& shape, std::uint32_t max_rows) {
  Carver carver(nullptr);
  carve(carver, shape, max_rows);
  return carver.used();
}

DevicePlan device_plan_view(std::byte* memory, const RouterShape& shape, std::uint32_t rows) {
  Carver carver(memory);
  return carve(carver, shape, rows);
}

PlanStats to_plan_stats(const DevicePlanStats& stats) {
  return {.routed_experts = stats.routed_experts,
          .activated_experts = stats.activated_experts,
          .assignments = stats.assignments,
          .remapped = stats.remapped,
          .retained_mass_sum = static_cast<double>(stats.retained_q24_sum) / kAllRetained,
          .retained_mass_min = static_cast<double>(stats.retained_q24_min) / kAllRetained};
}

}  // namespace lynx::cuda
