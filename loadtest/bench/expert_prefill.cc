#include "loadtest/bench/expert_prefill.h"

#include <cstdio>
#include <random>

#include "loadtest/bench/dense_layers.h"

namespace lynx {
namespace {

constexpr std::uint32_t kPrompts[] = {512, 2048, 4096};
constexpr std::uint32_t kMostRows = 4096;
constexpr std::size_t kLayers = 4;
constexpr std::uint32_t kDenseOutputs = 5120;  // qkv of the same model

std::vector<std::vector<float>> random_logits(std::uint32_t rows, std::uint32_t experts) {
  std::mt19937 rng(rows);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> layers(kLayers);
  for (auto& layer : layers) {
    layer.resize(std::size_t{rows} * experts);
    for (float& z : layer) z = normal(rng);
  }
  return layers;
}

}  // namespace

std::vector<BenchRow> measure_expert_prefill(const cuda::MoeShape& shape) {
  const cuda::MoeLayers layers(shape, kMostRows);
  const cuda::GemmLayers dense(kDenseOutputs, shape.experts.hidden, kMostRows);
  std::vector<BenchRow> rows;
  for (const std::uint32_t prompt : kPrompts) {
    const cuda::MoeTimes t = layers.measure(random_logits(prompt, shape.experts.experts), prompt, {});
    const double flops = 1.0 * prompt * shape.top_k * shape.expert_bytes();  // 2 bytes a weight, 2 flops
    const double dense_flops = 2.0 * prompt * kDenseOutputs * shape.experts.hidden;
    rows.push_back({.name = shape.name + ".prefill_experts.t" + std::to_string(prompt),
                    .unit = "TFLOP/s",
                    .value = flops / t.experts_us * 1e-6,
                    .ceiling = dense_flops / dense.wide_us(prompt, false) * 1e-6,
                    .ceiling_is = "cuBLASLt on a dense product of as many rows",
                    .target = ">= 0.4",
                    .details = {{"experts_us", t.experts_us}, {"route_us", t.route_us}}});
    std::fprintf(stderr, "%-34s %8.1f TFLOP/s  dense %.1f  %.3f x  (experts %.1f us, route %.1f us)\n",
                 rows.back().name.c_str(), rows.back().value, rows.back().ceiling, rows.back().ratio(),
                 t.experts_us, t.route_us);
  }
  return rows;
}

}  // namespace lynx
