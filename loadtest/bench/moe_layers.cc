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

// The plans and logits of the layers of a graph, and how each is launched.
class MoeLayers::Launches {
 public:
  Launches(const MoeLayers& layers, const std::vector<std::vector<float>>& logits, std::uint32_t rows,
           const RoutePolicy& policy)
      : layers_(layers),
        rows_(rows),
        policy_(policy),
        count_(static_cast<std::uint32_t>(logits.size())),
        plan_bytes_(device_plan_bytes(layers.shape_.router(), rows)),
        plans_(allocate_block<std::byte>(count_ * plan_bytes_)) {
    std::vector<float> all;
    for (const std::vector<float>& layer : logits) all.insert(all.end(), layer.begin(), layer.end());
    logits_ = upload_block<float>(all);
  }

  std::uint32_t count() const { return count_; }
  DevicePlan plan(std::uint32_t i) const {
    return device_plan_view(plans_.get() + i * plan_bytes_, layers_.shape_.router(), rows_);
  }
  void route(std::uint32_t i, cudaStream_t stream, std::uint64_t* timeline = nullptr) const {
    const RouterShape shape = layers_.shape_.router();
    const RouteArgs args{.logits = logits_.get() + std::size_t{i} * rows_ * shape.experts,
                         .plan = plan(i),
                         .shape = shape,
                         .policy = policy_.kind,
                         .derived = derive(shape, policy_),
                         .kernels = kernels_of_device(),
                         .timeline = timeline};
    rows_ > kMaxRouteRows ? route_prefill(args, stream) : cuda::route(args, stream);
  }
  void experts(std::uint32_t i, cudaStream_t stream, std::uint64_t* timeline = nullptr) const {
    experts_add({.out = layers_.out_.get(),
                 .out_stride = layers_.shape_.experts.hidden,
                 .x = layers_.x_.get(),
                 .x_stride = layers_.shape_.experts.hidden,
                 .packed = layers_.weights_.get() + i % layers_.layers_ * layers_.layer_bytes(),
                 .shape = layers_.shape_.experts,
                 .plan = plan(i),
                 .workspace = layers_.workspace_.get(),
                 .kernels = kernels_of_device(),
                 .prompt = rows_ > kMaxRouteRows,
                 .timeline = timeline},
                stream);
  }
  // Of one layer, where all of them are launched in turn.
  template <typename Launch>
  double us(const Launch& layer) const {
    const auto all_layers = [&](cudaStream_t stream) {
      for (std::uint32_t i = 0; i < count_; ++i) layer(i, stream);
    };
    return graph_microseconds(all_layers, kReplays) / count_;
  }

 private:
  const MoeLayers& layers_;
  std::uint32_t rows_;
  RoutePolicy policy_;
  std::uint32_t count_;
  std::size_t plan_bytes_;
  DeviceBlock<std::byte> plans_;
  DeviceBlock<float> logits_;
};

double MoeLayers::route_us(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                           const RoutePolicy& policy) const {
  const Launches launches(*this, logits, rows, policy);
  return launches.us([&](std::uint32_t i, cudaStream_t stream) { launches.route(i, stream); });
}

MoeTimes MoeLayers::measure(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                            const RoutePolicy& policy) const {
  const Launches launches(*this, logits, rows, policy);
  MoeTimes times;
  times.route_us = launches.us([&](std::uint32_t i, cudaStream_t stream) { launches.route(i, stream); });
  times.experts_us = launches.us([&](std::uint32_t i, cudaStream_t stream) { launches.experts(i, stream); });
  times.layer_us = launches.us([&](std::uint32_t i, cudaStream_t stream) {
    launches.route(i, stream);
    launches.experts(i, stream);
  });
  for (std::uint32_t i = 0; i < launches.count(); ++i) {
    DevicePlanStats stats;
    require(cudaMemcpy(&stats, launches.plan(i).stats, sizeof(stats), cudaMemcpyDeviceToHost), "cudaMemcpy");
    times.routed += double{1} * stats.routed_experts / launches.count();
    times.activated += double{1} * stats.activated_experts / launches.count();
  }
  return times;
}

MoeTimeline MoeLayers::timeline(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                                const RoutePolicy& policy) const {
  const Launches launches(*this, logits, rows, policy);
  MoeTimeline out;
  out.layers = launches.count();
  out.route_blocks = 8;  // room: what a launch has fewer leaves zeros
  out.expert_blocks = multiprocessors();
  const std::size_t route_marks = out.route_blocks * kRouteMarks;
  const std::size_t experts_marks = out.expert_blocks * kExpertsMarks;
  const auto route = allocate_block<std::uint64_t>(out.layers * route_marks);
  const auto experts = allocate_block<std::uint64_t>(out.layers * experts_marks);
  const auto all_layers = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < out.layers; ++i) {
      launches.route(i, stream, route.get() + i * route_marks);
      launches.experts(i, stream, experts.get() + i * experts_marks);
    }
  };
  graph_microseconds(all_layers, 3);
  out.route.resize(out.layers * route_marks);
  out.experts.resize(out.layers * experts_marks);
  require(cudaMemcpy(out.route.data(), route.get(), out.route.size() * 8, cudaMemcpyDeviceToHost), "times");
  require(cudaMemcpy(out.experts.data(), experts.get(), out.experts.size() * 8, cudaMemcpyDeviceToHost),
          "times");
  return out;
}

}  // namespace lynx::cuda
