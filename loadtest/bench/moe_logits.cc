#include "loadtest/bench/moe_logits.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace lynx {
namespace {

constexpr std::uint32_t kLayersOfGraph = 24;

}  // namespace

using cuda::MoeShape;

Logits random_logits(const MoeShape& shape, std::uint32_t rows, std::uint32_t among, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  const std::uint32_t n = shape.experts.experts;
  Logits out(kLayersOfGraph);
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (auto& layer : out) {
    std::shuffle(order.begin(), order.end(), rng);
    layer.resize(std::size_t{rows} * n);
    for (std::uint32_t r = 0; r < rows; ++r)
      for (std::uint32_t i = 0; i < n; ++i)
        layer[std::size_t{r} * n + order[i]] = normal(rng) - (i < among ? 0.0F : 100.0F);
  }
  return out;
}

Logits forced_logits(const MoeShape& shape, std::uint32_t rows, std::uint32_t unique, std::uint32_t seed) {
  Logits out = random_logits(shape, rows, unique, seed);
  for (auto& layer : out) {
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t e = 0; e < shape.experts.experts; ++e)
      if (layer[e] > -50) allowed.push_back(e);
    for (std::uint32_t i = 0; i < rows * shape.top_k; ++i)
      layer[std::size_t{i / shape.top_k} * shape.experts.experts + allowed[i % unique]] += 50;
  }
  return out;
}

Logits recorded_batches(const RecordedLogits& recorded, std::uint32_t rows) {
  Logits out;
  const std::size_t groups = recorded.sequences / rows;
  for (std::size_t i = 0; out.size() < kLayersOfGraph; ++i) {
    auto& layer = out.emplace_back();
    const std::size_t position = i / (recorded.layers * groups) % recorded.positions;
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = recorded.row(i % recorded.layers, i / recorded.layers % groups + r * groups, position);
      layer.insert(layer.end(), row.begin(), row.end());
    }
  }
  return out;
}

}  // namespace lynx
