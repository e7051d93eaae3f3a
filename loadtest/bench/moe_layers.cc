#include "loadtest/bench/moe_layers.h"

#include <algorithm>

#include "kernels/bench/device_roofline.h"

namespace lynx::cuda {
namespace {

constexpr std::size_t kBytesInTurn = std::size_t{3} << 30;
constexpr unsigned kReplays = 15;

std::uint32_t layers_in_turn(std::size_t layer_bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytesInTurn / layer_bytes + 1, 2, 64));
}

}  // namespace

MoeLayers::MoeLayers(const MoeShape& shape, std::uint32_t max_rows)
    : shape_(shape),
      layers_(layers_in_turn(layer_bytes())),
      weights_(allocate_block<std::byte>(layers_ * layer_bytes())),
      workspace_(allocate_block<std::byte>(experts_workspace_bytes(shape.experts, shape.top_k, max_rows))),
      x_(allocate_block<std::uint16_t>(std::size_t{max_rows} * shape.experts.hidden)),
      out_(allocate_block<float>(std::size_t{max_rows} * shape.experts.hidden)) {
  if (const Status status = check_experts(shape.experts); !status.ok())
    throw std::runtime_error(status.error().message);
  fill_random_bf16(weights_.get(), layers_ * layer_bytes() / 2, 0.02F, 1, nullptr);
  fill_random_bf16(x_.get(), std::size_t{max_rows} * shape.experts.hidden, 1, 2, nullptr);
  require(cudaDeviceSynchronize(), "random weights");
}

std::size_t MoeLayers::layer_bytes() const {
  return packed_expert_bytes(shape_.experts) * shape_.experts.experts;
}

MoeTimes MoeLayers::measure(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                            const RoutePolicy& policy) const {
  const auto count = static_cast<std::uint32_t>(logits.size());
  const std::size_t plan_bytes = device_plan_bytes(shape_.router(), rows);
  const DeviceBlock<std::byte> plans = allocate_block<std::byte>(count * plan_bytes);
  std::vector<float> all;
  for (const std::vector<float>& layer : logits) all.insert(all.end(), layer.begin(), layer.end());
  const DeviceBlock<float> device_logits = upload_block<float>(all);

  const auto plan_of = [&](std::uint32_t i) {
    return device_plan_view(plans.get() + i * plan_bytes, shape_.router(), rows);
  };
  const auto route_args = [&](std::uint32_t i) {
    return RouteArgs{.logits = device_logits.get() + std::size_t{i} * rows * shape_.experts.experts,
                     .plan = plan_of(i),
                     .shape = shape_.router(),
                     .policy = policy.kind,
                     .derived = derive(shape_.router(), policy),
                     .kernels = kernels_of_device()};
  };
  const auto experts_args = [&](std::uint32_t i) {
    return ExpertsArgs{.out = out_.get(),
                       .out_stride = shape_.experts.hidden,
                       .x = x_.get(),
                       .x_stride = shape_.experts.hidden,
                       .packed = weights_.get() + i % layers_ * layer_bytes(),
                       .shape = shape_.experts,
                       .plan = plan_of(i),
                       .workspace = workspace_.get(),
                       .kernels = kernels_of_device(),
                       .prompt = rows > kMaxRouteRows};
  };
  const auto per_layer = [&](auto&& layer) {
    const auto all_layers = [&](cudaStream_t stream) {
      for (std::uint32_t i = 0; i < count; ++i) layer(i, stream);
    };
    return graph_microseconds(all_layers, kReplays) / count;
  };
  const auto route_layer = [&](std::uint32_t i, cudaStream_t stream) {
    rows > kMaxRouteRows ? route_prefill(route_args(i), stream) : route(route_args(i), stream);
  };
  const auto run_experts = [&](std::uint32_t i, cudaStream_t stream) {
    experts_add(experts_args(i), stream);
  };
  const auto both = [&](std::uint32_t i, cudaStream_t stream) {
    route_layer(i, stream);
    run_experts(i, stream);
  };
  MoeTimes times;
  times.route_us = per_layer(route_layer);
  times.experts_us = per_layer(run_experts);
  times.layer_us = per_layer(both);
  for (std::uint32_t i = 0; i < count; ++i) {
    DevicePlanStats stats;
    require(cudaMemcpy(&stats, plan_of(i).stats, sizeof(stats), cudaMemcpyDeviceToHost), "cudaMemcpy");
    times.routed += double{1} * stats.routed_experts / count;
    times.activated += double{1} * stats.activated_experts / count;
  }
  return times;
}

}  // namespace lynx::cuda
