#include "loadtest/capacity/capacity_config.h"

#include <charconv>

#include "common/config/field_checks.h"

namespace lynx {

// A plan is about the lengths as they are; what exceeds the model's context is cut.
CapacityConfig::CapacityConfig() {
  source.lengths = "clip";
  source.context = 32768;
}

ConfigFields CapacityConfig::fields() {
  ConfigFields f;
  f.field("trace", &source.trace,
          "file to plan for, or folder of ServeGen client pools; empty = synthesize one");
  f.field("format", &source.format, "of the trace: auto, azure, burstgpt, mooncake, qwen");
  f.field("slice", &source.slice, "START,DURATION of the trace, in seconds or as 10m,90s");
  f.field("speedup", &source.speedup, "2 = twice the load");
  f.field("spread-within-tick", &source.spread_within_tick,
          "spread requests that share a timestamp up to the next one");
  f.field("lengths", &source.lengths, "clip, keep, scale or scale-inputs: see lynx-replay");
  f.field("context", &source.context, "most input and output tokens of a request together; 0 = no limit");
  f.field("seed", &source.seed, "of spreading and drawing");
  f.field("ttft", &ttft, "objective: time to the first token");
  f.field("tpot", &tpot, "objective: mean time per token after it");
  f.field("attainment", &goal.attainment, "share of the requests that must be inside both");
  f.field("most-workers", &goal.most_workers, "of one kind: no plan looks further");
  f.field("model", &model,
          "qwen3-30b-a3b, qwen2-57b-a14b, mixtral-8x7b, deepseek-v2-lite, or a folder with config.json");
  f.field("policy", &policy, "lynx, exact or both");
  f.field("unique-experts", &unique_experts,
          "BATCH=EXPERTS,..: distinct experts per layer-step as you measured them");
  f.field("result", &result, "write the plan to this file as JSON");
  f.section("gpu");
  f.field("memory", &gpu.memory_bytes, "bytes");
  f.field("bandwidth", &gpu.bytes_per_second, "bytes per second of streaming reads, as measured");
  f.field("flops", &gpu.flops, "bf16 operations per second, as published");
  f.field("link", &gpu.link_bytes_per_second, "bytes per second of a KV hand-over");
  f.section("cost");
  f.field("gpus", &cost.gpus, "of one worker");
  f.field("all-reduce", &cost.all_reduce_s, "seconds of one, when a worker has several GPUs");
  f.field("measured", &measured,
          "JSON of `lynx-bench kernel` or `lynx-bench step`: sets bandwidth, cost of experts and fixed cost");
  f.field("step-overhead", &cost.step_overhead_s,
          "seconds of a decode step beside reading and its MoE layers' own");
  f.field("layer-overhead", &cost.layer_overhead_s, "seconds of a MoE layer of a decode step beside reading");
  f.field("expert-bandwidth", &cost.expert_bandwidth,
          "bytes per second at which the kernels read experts; 0 = the bandwidth's share below");
  f.field("read-efficiency", &cost.read_efficiency, "share of the bandwidth that the decode kernels reach");
  f.field("prefill-efficiency", &cost.prefill_efficiency, "share of the operations that prefill reaches");
  f.field("prefill-overhead", &cost.prefill_overhead_s, "seconds of a prompt beside computing");
  f.field("prefill-chunk", &cost.prefill_chunk,
          "tokens of a prompt computed at once: chunk_tokens of the prefill workers");
  f.field("prefill-layer-overhead", &cost.prefill_layer_s,
          "seconds of a layer of a chunk beside computing, on one GPU; 0 = every expert is read");
  f.field("memory-share", &cost.memory_share, "of the GPU's memory, for weights and KV");
  f.field("max-batch", &cost.max_batch, "sequences of a decode step, at most");
  f.section("pool");
  f.field("start", &source.pool.start_s, "second of the recorded time at which a client pool is drawn from");
  f.field("duration", &source.pool.duration_s, "seconds");
  f.field("rate", &source.pool.rate, "requests per second, expected; 0 = as recorded");
  f.section("synthetic");
  f.field("duration", &source.synthetic.duration_s, "seconds");
  f.field("rate", &source.synthetic.rate, "requests per second, mean of the run");
  f.field("gap-cv", &source.synthetic.gap_cv, "standard deviation / mean of the gaps between requests");
  f.field("burst", &source.synthetic.burst, "rate while ON / mean rate; 1 = steady");
  f.field("input-median", &source.synthetic.input.median, "median input tokens of a request (log-normal)");
  f.field("input-most", &source.synthetic.input.most, "longer ones are cut to this");
  f.field("output-median", &source.synthetic.output.median, "median output tokens of a request (log-normal)");
  f.field("output-most", &source.synthetic.output.most, "longer ones are cut to this");
  return f;
}

Workload CapacityConfig::load_workload(std::string& trace_name) const {
  const Trace trace = source.load_trace();
  trace_name = trace.name;
  return value_or_throw_in("--",
                           plan_workload(trace, source.workload_options(), {{.name = "all", .share = 1}}));
}

ModelShape CapacityConfig::load_model() const { return value_or_throw("--model", find_model_shape(model)); }

CapacityGoal CapacityConfig::capacity_goal() const {
  CapacityGoal out = goal;
  check_field(ttft.count() > 0, "--ttft", "must be above 0");
  check_field(tpot.count() > 0, "--tpot", "must be above 0");
  check_field(goal.attainment > 0 && goal.attainment <= 1, "--attainment", "must be above 0 and at most 1");
  check_field(goal.most_workers > 0 && goal.most_workers <= 4096, "--most-workers", "must be from 1 to 4096");
  out.ttft_s = std::chrono::duration<double>(ttft).count();
  out.tpot_s = std::chrono::duration<double>(tpot).count();
  return out;
}

std::vector<std::pair<std::string, UniqueExperts>> CapacityConfig::policies(const ModelShape& shape) const {
  if (!unique_experts.empty()) {
    std::map<double, double> points;
    for (const auto& [text, experts] : unique_experts) {
      double batch = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), batch);
      check_field(error == std::errc() && end == text.data() + text.size() && batch >= 1, "--unique-experts",
                  "'" + text + "' is no batch of at least 1");
      check_field(experts >= 1 && experts <= shape.experts, "--unique-experts",
                  "experts must be from 1 to " + std::to_string(shape.experts));
      points[batch] = experts;
    }
    return {{"as measured", UniqueExperts(shape, std::move(points))}};
  }
  const std::pair<std::string, UniqueExperts> lynx{"lynx", {shape, UniqueExperts::Policy::kLynx}},
      exact{"exact", {shape, UniqueExperts::Policy::kExact}};
  if (policy == "lynx") return {lynx};
  if (policy == "exact") return {exact};
  check_field(policy == "both", "--policy", "'" + policy + "' is not one of lynx, exact, both");
  return {lynx, exact};
}

std::optional<MeasuredCost> CapacityConfig::take_measured(const ModelShape& shape) {
  if (measured.empty()) return std::nullopt;
  const MeasuredCost out = value_or_throw("--cost.measured", read_measured_cost(measured, shape));
  apply(out, shape, gpu, cost);
  return out;
}

void CapacityConfig::check_costs() const {
  const auto positive = [](double value) { return value > 0 && value < 1e18; };
  const auto share = [](double value) { return value > 0 && value <= 1; };
  check_field(positive(gpu.memory_bytes), "--gpu.memory", "must be above 0");
  check_field(positive(gpu.bytes_per_second), "--gpu.bandwidth", "must be above 0");
  check_field(positive(gpu.flops), "--gpu.flops", "must be above 0");
  check_field(positive(gpu.link_bytes_per_second), "--gpu.link", "must be above 0");
  check_field(cost.gpus >= 1 && cost.gpus <= 64, "--cost.gpus", "must be from 1 to 64");
  check_field(share(cost.read_efficiency), "--cost.read-efficiency", "must be above 0 and at most 1");
  check_field(share(cost.prefill_efficiency), "--cost.prefill-efficiency", "must be above 0 and at most 1");
  check_field(share(cost.memory_share), "--cost.memory-share", "must be above 0 and at most 1");
  check_field(cost.max_batch >= 1 && cost.max_batch <= 4096, "--cost.max-batch", "must be from 1 to 4096");
  check_field(cost.step_overhead_s >= 0 && cost.step_overhead_s < 10, "--cost.step-overhead",
              "must be from 0 to 10 s");
  check_field(cost.layer_overhead_s >= 0 && cost.layer_overhead_s < 1, "--cost.layer-overhead",
              "must be from 0 to 1 s");
  check_field(cost.expert_bandwidth >= 0 && cost.expert_bandwidth < 1e18, "--cost.expert-bandwidth",
              "must be at least 0");
  check_field(cost.prefill_overhead_s >= 0 && cost.prefill_overhead_s < 10, "--cost.prefill-overhead",
              "must be from 0 to 10 s");
  check_field(cost.prefill_chunk >= 1 && cost.prefill_chunk <= 1'000'000, "--cost.prefill-chunk",
              "must be from 1 to 1000000");
  check_field(cost.prefill_layer_s >= 0 && cost.prefill_layer_s < 1, "--cost.prefill-layer-overhead",
              "must be from 0 to 1 s");
  check_field(cost.all_reduce_s >= 0 && cost.all_reduce_s < 1, "--cost.all-reduce", "must be from 0 to 1 s");
}

}  // namespace lynx
