// Routes a batch on the device, as the backend does, and reads the plan back.
#pragma once

#include <optional>

#include "kernels/cuda/route.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/lynx/routing_case.h"

namespace lynx::cuda {

// The plan of a batch whose padding rows all stand at its end.
class RoutedBatch {
 public:
  explicit RoutedBatch(const RoutingCase& c)
      : rows_(c.rows()),
        logits_(c.logits),
        live_(std::vector<std::uint32_t>{
            static_cast<std::uint32_t>(std::count(c.live.begin(), c.live.end(), std::uint8_t{1}))}),
        memory_(device_plan_bytes(c.shape, c.rows())) {
    args_.logits = logits_.get();
    args_.plan = device_plan_view(memory_.get(), c.shape, rows_);
    expect_ok(cudaMemset(args_.plan.hints, 0, kPlanHints * sizeof(std::uint32_t)));
    args_.shape = c.shape;
    args_.policy = c.policy.kind;
    args_.derived = derive(c.shape, c.policy);
    args_.live_rows = live_.get();
    args_.kernels = kernels_of_device();
    if (!c.exact.empty()) args_.exact = exact_.emplace(c.exact).get();
  }

  void decode(std::uint64_t* timeline = nullptr) {  // see RouteArgs
    args_.timeline = timeline;
    route(args_, nullptr);
  }
  void prefill() { route_prefill(args_, nullptr); }

  const DevicePlan& device_plan() const { return args_.plan; }

  ExpertPlan plan() const {
    const DevicePlan& d = args_.plan;
    using U32 = DeviceArray<std::uint32_t>;
    ExpertPlan p;
    p.rows = d.rows;
    p.top_k = d.top_k;
    const std::size_t pairs = std::size_t{d.rows} * d.top_k;
    p.experts = U32::download_from(d.expert_of, pairs);
    p.weights = DeviceArray<float>::download_from(d.weight_of, pairs);
    const std::uint32_t count = std::min(U32::download_from(d.count, 1)[0], d.experts);
    p.active = U32::download_from(d.active, count);
    p.offsets = U32::download_from(d.offsets, count + 1);
    const std::size_t used = std::min<std::size_t>(p.offsets.back(), pairs);
    p.row_of = U32::download_from(d.row_of, used);
    p.slot_of = U32::download_from(d.slot_of, used);
    p.stats = to_plan_stats(DeviceArray<DevicePlanStats>::download_from(d.stats, 1)[0]);
    return p;
  }

  std::vector<DevicePlanRow> row_stats(std::size_t count) const {
    return DeviceArray<DevicePlanRow>::download_from(args_.plan.row_stats, count);
  }

  std::vector<std::uint32_t> hints() const {
    return DeviceArray<std::uint32_t>::download_from(args_.plan.hints, kPlanHints);
  }

  std::vector<float> pair_weights(std::size_t count) const {
    return DeviceArray<float>::download_from(args_.plan.pair_weight, count);
  }

 private:
  std::uint32_t rows_;
  DeviceArray<float> logits_;
  DeviceArray<std::uint32_t> live_;
  std::optional<DeviceArray<std::uint8_t>> exact_;
  DeviceArray<std::byte> memory_;
  RouteArgs args_;
};

}  // namespace lynx::cuda
