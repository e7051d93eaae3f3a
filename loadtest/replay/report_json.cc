#include <nlohmann/json.hpp>
#include <span>

#include "loadtest/replay/run_view.h"

namespace lynx {
namespace {

using json = nlohmann::ordered_json;

template <typename Duration>
double as_seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
double as_ms(std::chrono::microseconds d) { return static_cast<double>(d.count()) / 1000; }

void add_summary(json& out, const std::string& metric, const Summary& s) {
  out["mean_" + metric + "_ms"] = s.mean;
  out["median_" + metric + "_ms"] = s.p50;
  out["std_" + metric + "_ms"] = s.std;
  out["p50_" + metric + "_ms"] = s.p50;
  out["p90_" + metric + "_ms"] = s.p90;
  out["p95_" + metric + "_ms"] = s.p95;
  out["p99_" + metric + "_ms"] = s.p99;
}

void add_totals(json& out, const Report& r) {
  out["date"] = r.facts.date;
  out["backend"] = "openai";
  out["endpoint"] = "/v1/completions";
  out["target"] = r.facts.target;
  out["model_id"] = r.facts.model;
  out["num_prompts"] = r.requests;
  out["duration"] = r.judged_s();
  out["interrupted"] = r.facts.interrupted;
  out["completed"] = r.completed;
  out["failed"] = r.requests - r.completed;
  out["total_input_tokens"] = r.input_tokens;
  out["total_output_tokens"] = r.output_tokens;
  out["request_throughput"] = r.per_second(static_cast<double>(r.completed));
  out["request_goodput"] = r.per_second(static_cast<double>(r.met()));
  out["output_throughput"] = r.per_second(static_cast<double>(r.output_tokens));
  out["total_token_throughput"] = r.per_second(static_cast<double>(r.input_tokens + r.output_tokens));
  out["max_output_tokens_per_s"] = r.peak_output_tokens_per_s;
  out["max_concurrent_requests"] = r.peak_concurrency;
}

json trace_of(const RunFacts& facts) {
  json rejected = json::array();
  for (const auto& row : facts.rejected.first)
    rejected.push_back({{"line", row.line}, {"reason", row.reason}});
  return {{"file", facts.trace_name},
          {"format", facts.trace_format},
          {"sha256", facts.trace_sha256.empty() ? json() : json(facts.trace_sha256)},
          {"rows", facts.trace_rows},
          {"rejected", facts.rejected.count},
          {"rejected_by_reason", facts.rejected.by_reason},
          {"rejected_rows", rejected}};
}

json slice_of(const WorkloadOptions& options) {
  if (!options.slice) return nullptr;
  return {{"start_s", as_seconds(options.slice->start)}, {"duration_s", as_seconds(options.slice->duration)}};
}

json lengths_of(const RunFacts& facts) {
  return {{"mode", to_string(facts.options.lengths)},
          {"factor", facts.length_factor},
          {"context", facts.options.context},
          {"max_output_tokens", facts.options.max_output_tokens}};
}

json slos_of(const Report& r) {
  json out = json::object();
  for (const ClassReport& c : r.classes)
    out[c.slo.name] = {{"ttft_ms", as_ms(c.slo.ttft)}, {"tpot_ms", as_ms(c.slo.tpot)},
                       {"requests", c.requests},       {"met_ttft", c.met_ttft},
                       {"met_tpot", c.met_tpot},       {"met", c.met},
                       {"attainment", c.attainment()}, {"goodput", r.per_second(static_cast<double>(c.met))}};
  return out;
}

json experts_of(const WorkerReport& w) {
  if (w.layer_steps == 0) return nullptr;
  return {{"layer_steps", w.layer_steps},
          {"routed_mean", w.routed_mean},
          {"activated_mean", w.activated_mean},
          {"remapped_share", w.remapped_share},
          {"retained_mass_mean", w.retained_mass_mean}};
}

json kv_of(const WorkerReport& w) {
  double total = 0;
  for (const auto& [transport, bytes] : w.kv_bytes) total += bytes;
  return {{"bytes", total},
          {"bytes_by_transport", w.kv_bytes},
          {"transfers", w.kv_transfers},
          {"mean_transfer_ms", 1e3 * w.kv_seconds_mean},
          {"mean_exposed_ms", 1e3 * w.kv_exposed_seconds_mean},
          {"failures", w.kv_failures}};
}

json request_of(const Outcome& o, const std::vector<SloTarget>& slos) {
  json itl = json::array();
  for (const Clock::duration gap : o.itl) itl.push_back(as_seconds(gap));
  return {{"start_time", as_seconds(o.sent_at)},
          {"lateness", as_seconds(o.lateness)},
          {"slo_class", slos[o.slo].name},
          {"warm_up", o.warm_up},
          {"input_len", o.input_tokens},
          {"asked_len", o.asked_tokens},
          {"output_len", o.output_tokens},
          {"ttft", as_seconds(o.ttft)},
          {"latency", as_seconds(o.e2e)},
          {"itl", std::move(itl)},
          {"error", o.failure},
          {"detail", o.detail}};
}

json quantiles_of(const Quantiles& q) {
  if (q.count == 0) return nullptr;
  return {{"mean", q.mean}, {"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}};
}

json timeline_of(const Timeline& timeline) {
  json bins = json::array();
  for (const TimeBin& b : timeline.bins)
    bins.push_back({{"at_s", b.at_s},
                    {"offered", b.offered},
                    {"sent", b.sent},
                    {"completed", b.completed},
                    {"failed", b.failed},
                    {"in_flight", b.in_flight},
                    {"met", b.met},
                    {"tokens", b.tokens},
                    {"ttft_ms", quantiles_of(b.ttft_ms)},
                    {"tpot_ms", quantiles_of(b.tpot_ms)},
                    {"itl_ms", quantiles_of(b.itl_ms)}});
  return {{"bin_s", timeline.bin_s}, {"bins", std::move(bins)}};
}

// NaN, nothing happened, becomes null.
template <typename Curves>
json curves_of(const Curves& curves, std::span<const NamedCurve<Curves>> all) {
  json out{{"at_s", curves.at_s}};
  for (const auto& curve : all) out[curve.name] = curves.*curve.points;
  return out;
}

json workers_of(const std::vector<WorkerCurves>& workers) {
  json out = json::array();
  for (const WorkerCurves& w : workers) {
    json& one = out.emplace_back(curves_of<WorkerCurves>(w, kWorkerCurves));
    one["name"] = w.name;
    one["decodes"] = w.decodes;
  }
  return out;
}

}  // namespace

std::string result_json(const RunView& run, bool with_requests) {
  const Report& r = run.report;
  json out;
  add_totals(out, r);
  add_summary(out, "ttft", r.ttft_ms);
  add_summary(out, "tpot", r.tpot_ms);
  add_summary(out, "itl", r.itl_ms);
  add_summary(out, "e2el", r.e2e_ms);
  out["errors"] = r.failures;
  out["error_examples"] = r.first_detail;
  out["lateness"] = {{"mean_ms", r.lateness_ms.mean},
                     {"p50_ms", r.lateness_ms.p50},
                     {"p99_ms", r.lateness_ms.p99},
                     {"max_ms", r.lateness_ms.max}};
  out["warm_up"] = {{"seconds", r.facts.warm_up_s}, {"requests", r.warm_up_requests}};
  out["offered"] = {{"seconds", r.offered.seconds},
                    {"request_rate", r.offered.requests_per_s},
                    {"input_token_rate", r.offered.input_tokens_per_s},
                    {"output_token_rate", r.offered.output_tokens_per_s}};
  out["attainment"] = r.attainment();
  out["slo"] = slos_of(r);
  out["trace"] = trace_of(r.facts);
  out["slice"] = slice_of(r.facts.options);
  out["speedup"] = r.facts.options.speedup;
  out["spread_within_tick"] = r.facts.options.spread_within_tick;
  out["seed"] = r.facts.options.seed;
  out["lengths"] = lengths_of(r.facts);
  out["experts"] = experts_of(r.workers);
  out["kv"] = kv_of(r.workers);
  out["metrics_problems"] = r.facts.metrics_problems;
  out["timeline"] = timeline_of(run.timeline);
  out["fleet"] = curves_of<FleetCurves>(run.fleet, kFleetCurves);
  out["workers"] = workers_of(run.workers);
  if (with_requests)
    for (const Outcome& o : run.outcomes) out["requests"].push_back(request_of(o, r.facts.slos));
  // A server's message may hold any bytes.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace lynx
