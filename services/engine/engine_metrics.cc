#include "services/engine/engine_metrics.h"

namespace lynx {
namespace {

constexpr const char* kUnique = "unique_experts";
constexpr const char* kUniqueHelp =
    "Distinct experts of one layer in one step: routed by the model, and activated after remapping";
constexpr const char* kBytes = "expert_bytes_total";
constexpr const char* kBytesHelp = "Bytes of expert weights: read by steps, and avoided by remapping";

const std::vector<double>& row_bounds() {
  static const std::vector<double> bounds{1,  2,   4,   8,   16,   24,   32,   48,
                                          64, 128, 256, 512, 1024, 2048, 4096, 8192};
  return bounds;
}

}  // namespace

EngineMetrics::EngineMetrics(MetricsRegistry& registry)
    : registry_(registry),
      routed_(registry.histogram(kUnique, kUniqueHelp, expert_count_bounds(), {{"stage", "routed"}})),
      activated_(registry.histogram(kUnique, kUniqueHelp, expert_count_bounds(), {{"stage", "activated"}})),
      retained_mass_(
          registry.histogram("retained_router_mass",
                             "Router probability that the plan keeps of the exact top-k, mean of the rows of "
                             "one layer in one step",
                             ratio_bounds())),
      bytes_read_(registry.counter(kBytes, kBytesHelp, {{"kind", "read"}})),
      bytes_avoided_(registry.counter(kBytes, kBytesHelp, {{"kind", "avoided"}})),
      assignments_(registry.counter("assignments_total", "Token-to-expert assignments")),
      remapped_(registry.counter("remapped_assignments_total",
                                 "Assignments moved onto an expert outside the row's top-k")),
      drift_kl_(
          registry.histogram("drift_kl",
                             "Divergence in nats of the served distribution from the exact model's, one "
                             "row of a sampled decode step",
                             {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10})),
      drift_flips_(registry.counter(
          "drift_flips_total", "Sampled rows whose most likely token is another than the exact model's")),
      drift_level_(registry.gauge("drift_tightening",
                                  "Steps by which the drift guard has tightened the routing policy; 0 = as "
                                  "configured")) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    const Labels labels{{"phase", phase == Phase::kPrefill ? "prefill" : "decode"}};
    ByPhase& by = phases_[static_cast<std::size_t>(phase)];
    by.step_seconds =
        &registry.histogram("step_seconds", "Duration of one engine step", token_seconds_bounds(), labels);
    by.batch_size = &registry.histogram("batch_size", "Sequences of one step", expert_count_bounds(), labels);
    by.step_rows = &registry.histogram("step_rows", "Tokens that one step computed", row_bounds(), labels);
    by.computed_rows = &registry.histogram(
        "step_computed_rows",
        "Rows that the device computed in one step: its tokens, padded to the bucket of a CUDA graph",
        row_bounds(), labels);
  }
}

void EngineMetrics::observe_step(Phase phase, std::uint32_t sequences, const StepOutcome& outcome,
                                 std::size_t expert_bytes, double seconds) {
  const ByPhase& by = phases_[static_cast<std::size_t>(phase)];
  by.step_seconds->Observe(seconds);
  by.batch_size->Observe(sequences);
  by.step_rows->Observe(outcome.rows);
  by.computed_rows->Observe(outcome.computed_rows);
  for (std::size_t i = 0; i < outcome.layers.size(); ++i) {
    const PlanStats& layer = outcome.layers[i];
    observe_layer(layer, expert_bytes);
    of_layer(i).routed->Increment(layer.routed_experts);
    of_layer(i).activated->Increment(layer.activated_experts);
    retained_mass_.Observe(layer.retained_mass_sum / outcome.rows);
  }
}

void EngineMetrics::observe_drift(const DriftSample& sample, std::uint32_t level) {
  drift_kl_.Observe(sample.kl);
  if (sample.flipped) drift_flips_.Increment();
  drift_level_.Set(level);
}

// Sums and not histograms: a large model has a hundred layers, and each would cost sixty series.
EngineMetrics::ByLayer& EngineMetrics::of_layer(std::size_t layer) {
  while (layers_.size() <= layer) {
    const auto sum = [&](const char* stage) {
      return &registry_.counter(
          "layer_experts_total",
          "Distinct experts of one layer, summed over steps: divide by the rate of steps",
          {{"layer", std::to_string(layers_.size())}, {"stage", stage}});
    };
    layers_.push_back({sum("routed"), sum("activated")});
  }
  return layers_[layer];
}

void EngineMetrics::observe_layer(const PlanStats& layer, std::size_t expert_bytes) {
  routed_.Observe(layer.routed_experts);
  activated_.Observe(layer.activated_experts);
  bytes_read_.Increment(static_cast<double>(layer.activated_experts * expert_bytes));
  // Rows of a batch may be filled up to k with experts that nobody routed to, so the difference can be
  // negative.
  if (layer.routed_experts > layer.activated_experts)
    bytes_avoided_.Increment(
        static_cast<double>((layer.routed_experts - layer.activated_experts) * expert_bytes));
  assignments_.Increment(layer.assignments);
  remapped_.Increment(layer.remapped);
}

}  // namespace lynx
