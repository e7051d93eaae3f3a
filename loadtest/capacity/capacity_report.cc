#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "loadtest/capacity/capacity_config.h"
#include "loadtest/replay/text_page.h"

namespace lynx {
namespace {

void workload_lines(TextPage& page, const std::string& trace, const std::vector<PlannedRequest>& requests) {
  double input = 0, output = 0;
  for (const PlannedRequest& r : requests) {
    input += r.input_tokens;
    output += r.output_tokens;
  }
  const double n = static_cast<double>(requests.size());
  const double span = std::chrono::duration<double>(requests.back().at).count();
  page.line("workload     %s: %.0f requests over %.0f s, %.2f per second", trace.c_str(), n, span,
            span > 0 ? n / span : 0);
  page.line("             %.0f tokens in and %.0f out per request, mean; %.0f and %.0f per second", input / n,
            output / n, span > 0 ? input / span : 0, span > 0 ? output / span : 0);
}

void measured_line(TextPage& page, const std::string& file, const MeasuredCost& m) {
  const bool layers = m.of == MeasuredCost::Of::kLayers;
  page.line("  measured     %s: %zu %s, the line is off by at most %.0f %%; %.2f us per expert, %.1f us %s",
            file.c_str(), m.rows, layers ? "MoE layers" : "decode steps", 100 * m.worst_error,
            1e6 * m.per_expert_s, 1e6 * m.fixed_s, layers ? "more per layer" : "more per step");
  if (m.prefill_rows > 0)
    page.line("               the experts of %zu prompts: %.0f TFLOP/s, %.0f us more per layer of a chunk",
              m.prefill_rows, 1e-12 * m.prefill_flops, 1e6 * m.prefill_layer_s);
}

void assumption_lines(TextPage& page, const CapacityConfig& config, const ModelShape& model,
                      const std::optional<MeasuredCost>& measured, const WorkerCost& cost) {
  const auto& c = cost.coefficients();
  page.line("model        %s: %u layers, %u experts top-%u, %.1f GB of weights, %.1f KB of KV per token",
            model.name.c_str(), model.layers, model.experts, model.top_k, model.weight_bytes() / 1e9,
            model.kv_bytes_per_token() / 1e3);
  page.line("\nAssumptions (each is a setting)");
  if (measured) measured_line(page, config.measured, *measured);
  page.line("  a worker     %u GPU%s: %.2f TB/s x %.2f, %.0f TFLOP/s x %.2f, %.0f GB x %.2f",
            config.cost.gpus, config.cost.gpus > 1 ? "s" : "", config.gpu.bytes_per_second / 1e12,
            config.cost.read_efficiency, config.gpu.flops / 1e12, config.cost.prefill_efficiency,
            config.gpu.memory_bytes / 1e9, config.cost.memory_share);
  page.line("  decode step  %.2f ms + expert bytes / %.2f TB/s + KV bytes / %.2f TB/s; batch up to %u",
            1e3 * c.fixed_s, 1e-12 / c.per_expert_byte, 1e-12 / c.per_kv_byte, c.max_batch);
  page.line("  KV pool      %.2f million tokens per decode worker; a sequence holds its whole length",
            1e-6 * static_cast<double>(c.kv_tokens));
  page.line(
      "  prefill      %.1f ms + %.1f ms per chunk of %.0f tokens + %.1f us per token + attention; "
      "one prompt after another",
      1e3 * c.prefill_fixed_s, 1e3 * c.prefill_chunk_s, c.prefill_chunk, 1e6 * c.prefill_per_token);
  page.line("  no prefix cache, no failure, no other load; workers equal, choice by fewest sequences");
}

void step_lines(TextPage& page, const std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>>& plans) {
  page.line("\nDecode step at the mean context, ms (unique experts per layer)");
  std::string head = "  batch      ";
  for (const int batch : {1, 4, 8, 16, 32, 64}) {
    char cell[24];
    std::snprintf(cell, sizeof cell, "%15d", batch);
    head += cell;
  }
  page.line("%s", head.c_str());
  for (const auto& [name, cost, plan] : plans) {
    std::string row = "  " + name + std::string(name.size() < 11 ? 11 - name.size() : 1, ' ');
    for (const double batch : {1.0, 4.0, 8.0, 16.0, 32.0, 64.0}) {
      char cell[32];
      std::snprintf(cell, sizeof cell, "%7.2f (%5.1f)",
                    1e3 * cost.step_seconds(batch, batch * plan.mean_context), cost.experts().at(batch));
      row += cell;
    }
    page.line("%s", row.c_str());
  }
}

void plan_lines(TextPage& page, const CapacityConfig& config, const std::string& name,
                const CapacityPlan& plan) {
  page.line("\n%s experts", name.c_str());
  page.line("  by the mean load alone: %.2f prefill and %.2f decode workers (batch %.0f inside TPOT)",
            plan.least_prefill, plan.least_decode, plan.largest_batch);
  if (!plan.answer) {
    page.line("  NO fleet of up to %u workers of a kind does it: %s", config.goal.most_workers,
              plan.why_not.c_str());
    return;
  }
  const FleetSize best = plan.answer->fleet;
  page.line("  ANSWER: %u prefill + %u decode workers = %u GPUs", best.prefill, best.decode,
            best.total() * config.cost.gpus);
  page.line(
      "  prefill decode   TTFT p50      p99   TPOT p50     p99    inside both   busy prefill  decode   batch "
      " experts");
  for (const FleetResult& r : plan.nearby)
    page.line("  %7u %6u %8.0f ms %5.0f ms %7.1f ms %4.1f ms %13.2f%% %13.0f%% %6.0f%% %7.1f %8.1f%s",
              r.fleet.prefill, r.fleet.decode, r.ttft_ms.p50, r.ttft_ms.p99, r.tpot_ms.p50, r.tpot_ms.p99,
              100 * r.both_met, 100 * r.prefill_busy, 100 * r.decode_busy, r.mean_batch, r.mean_unique,
              r.fleet.prefill == best.prefill && r.fleet.decode == best.decode ? "  <-" : "");
}

nlohmann::ordered_json fleet_json(const FleetResult& r) {
  return {{"prefill_workers", r.fleet.prefill},
          {"decode_workers", r.fleet.decode},
          {"attainment", r.both_met},
          {"ttft_met", r.ttft_met},
          {"tpot_met", r.tpot_met},
          {"ttft_p99_ms", r.ttft_ms.p99},
          {"tpot_p99_ms", r.tpot_ms.p99},
          {"prefill_busy", r.prefill_busy},
          {"decode_busy", r.decode_busy},
          {"mean_batch", r.mean_batch},
          {"mean_unique_experts", r.mean_unique}};
}

nlohmann::ordered_json answer_json(const CapacityPlan& plan) {
  if (!plan.answer) return nullptr;
  return fleet_json(*plan.answer);
}

}  // namespace

std::string capacity_text(const CapacityConfig& config, const ModelShape& model,
                          const std::optional<MeasuredCost>& measured, const std::string& trace,
                          const std::vector<PlannedRequest>& requests,
                          const std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>>& plans) {
  TextPage page;
  workload_lines(page, trace, requests);
  page.line("objective    TTFT %lld ms and TPOT %lld ms for %.4g %% of the requests",
            static_cast<long long>(config.ttft.count()), static_cast<long long>(config.tpot.count()),
            100 * config.goal.attainment);
  assumption_lines(page, config, model, measured, std::get<WorkerCost>(plans.front()));
  step_lines(page, plans);
  for (const auto& [name, cost, plan] : plans) plan_lines(page, config, name, plan);
  return page.take();
}

std::string capacity_json(const CapacityConfig& config, const std::string& trace,
                          const std::vector<std::tuple<std::string, WorkerCost, CapacityPlan>>& plans) {
  nlohmann::ordered_json out{{"trace", trace},
                             {"model", config.model},
                             {"ttft_ms", config.ttft.count()},
                             {"tpot_ms", config.tpot.count()},
                             {"attainment", config.goal.attainment},
                             {"gpus_per_worker", config.cost.gpus}};
  for (const auto& [name, cost, plan] : plans) {
    const auto& c = cost.coefficients();
    nlohmann::ordered_json one{{"step_fixed_s", c.fixed_s},
                               {"seconds_per_expert_byte", c.per_expert_byte},
                               {"seconds_per_kv_byte", c.per_kv_byte},
                               {"kv_tokens", c.kv_tokens},
                               {"least_prefill_workers", plan.least_prefill},
                               {"least_decode_workers", plan.least_decode},
                               {"answer", answer_json(plan)},
                               {"why_not", plan.why_not}};
    for (const FleetResult& fleet : plan.nearby) one["nearby"].push_back(fleet_json(fleet));
    out["plans"][name] = std::move(one);
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lynx
