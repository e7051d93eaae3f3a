// MoE layers of a model's dimensions on the device, with random weights, for `lynx-bench kernel`: layers in
// turn, so that the L2 cache never holds what comes next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/bench/device_graph.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/route.h"

namespace lynx::cuda {

struct MoeShape {
  std::string name;
  ExpertShape experts;
  std::uint32_t top_k = 0;

  RouterShape router() const { return {.experts = experts.experts, .top_k = top_k}; }
  double expert_bytes() const { return 6.0 * experts.hidden * experts.intermediate; }
};

struct MoeTimes {
  double layer_us = 0;    // routing to weighted sum
  double route_us = 0;    // routing alone
  double experts_us = 0;  // experts alone, plans made before
  double routed = 0;      // distinct experts of the exact top-k sets, mean over layers
  double activated = 0;   // experts read, mean over layers
};

// One record a block of each layer's launches: see kernels/cuda/timeline.h.
struct MoeTimeline {
  std::uint32_t layers = 0, route_blocks = 0, expert_blocks = 0;
  std::vector<std::uint64_t> route;    // [layers, route_blocks, kRouteMarks]
  std::vector<std::uint64_t> experts;  // [layers, expert_blocks, kExpertsMarks]
};

class MoeLayers {
 public:
  MoeLayers(const MoeShape& shape, std::uint32_t max_rows);

  const MoeShape& shape() const { return shape_; }
  // One entry of `logits` a routing: [B, N] of layer i of the graph. The graph holds all of them. More rows
  // than a decode batch has are a prompt's.
  MoeTimes measure(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                   const RoutePolicy& policy) const;
  // That of measure, and nothing else.
  double route_us(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                  const RoutePolicy& policy) const;
  // Of the last of a few replays of the same graph.
  MoeTimeline timeline(const std::vector<std::vector<float>>& logits, std::uint32_t rows,
                       const RoutePolicy& policy) const;

 private:
  class Launches;

  std::size_t layer_bytes() const;

  MoeShape shape_;
  std::uint32_t layers_;
  DeviceBlock<std::byte> weights_;
  DeviceBlock<std::byte> workspace_;
  DeviceBlock<std::uint16_t> x_;
  DeviceBlock<float> out_;
};

}  // namespace lynx::cuda
