#include "services/router/router_metrics.h"

#include <utility>

#include "common/core/version.h"

namespace lynx {
namespace {

constexpr std::array<std::string_view, 3> kObjectives{"ttft", "tpot", "all"};
constexpr std::array<std::string_view, kRejectReasons> kRejects{"queue_full", "queue_timeout", "no_workers",
                                                                "deadline", "draining"};

void make_receipts(MetricsRegistry& registry, const std::string& slo_class, RouterMetrics::PerClass& out) {
  const Labels labels{{"slo_class", slo_class}};
  out.remapped_share = &registry.histogram(
      "receipt_remapped_share", "Share of a sequence's assignments that decode steps remapped; of receipts",
      {0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1}, labels);
  const auto mass = [&](const char* of) {
    return &registry.histogram("receipt_router_mass",
                               "Router probability that a sequence kept of its exact top-k: mean of its "
                               "decode steps, and the worst one; of receipts",
                               ratio_bounds(), {{"slo_class", slo_class}, {"of", of}});
  };
  out.router_mass_mean = mass("mean");
  out.router_mass_worst = mass("worst_step");
  out.batch_mean = &registry.histogram("receipt_batch_size",
                                       "Sequences of a sequence's decode steps, itself among them, mean; of "
                                       "receipts",
                                       expert_count_bounds(), labels);
}

RouterMetrics::PerClass make_class(MetricsRegistry& registry, const SloClass& slo_class) {
  const std::string& name = slo_class.name;
  const Labels labels{{"slo_class", name}};
  RouterMetrics::PerClass out{};
  out.ttft = &registry.histogram("ttft_seconds", "Time from a request's arrival to its first token",
                                 request_seconds_bounds(), labels);
  out.tpot = &registry.histogram("tpot_seconds", "Mean time per token after the first, per sequence",
                                 token_seconds_bounds(), labels);
  out.itl = &registry.histogram("itl_seconds", "Time between two tokens of a sequence",
                                token_seconds_bounds(), labels);
  out.e2e = &registry.histogram("e2e_seconds", "Time from a request's arrival to its last token",
                                request_seconds_bounds(), labels);
  out.queue = &registry.histogram("queue_seconds", "Time a sequence waited in the router for workers",
                                  request_seconds_bounds(), labels);
  make_receipts(registry, name, out);
  out.depth = &registry.gauge("queue_depth", "Sequences that wait in the router", labels);
  for (std::size_t objective = 0; objective < kObjectives.size(); ++objective)
    for (const bool met : {false, true})
      out.slo[objective][met ? 1 : 0] = &registry.counter(
          "slo_requests_total", "Sequences by whether they met the objective of their class",
          {{"slo_class", name},
           {"objective", std::string(kObjectives[objective])},
           {"met", met ? "true" : "false"}});
  const auto show_objective = [&](const char* objective, std::chrono::milliseconds limit) {
    registry
        .gauge("slo_objective_seconds", "What a class promises: the objective's upper limit",
               {{"slo_class", name}, {"objective", objective}})
        .Set(std::chrono::duration<double>(limit).count());
  };
  show_objective("ttft", slo_class.ttft);
  show_objective("tpot", slo_class.tpot);
  return out;
}

}  // namespace

RouterMetrics::RouterMetrics(MetricsRegistry& registry, const std::vector<SloClass>& classes,
                             std::string policy)
    : registry_(registry), policy_(std::move(policy)) {
  for (const auto& slo_class : classes) classes_.push_back(make_class(registry, slo_class));
  for (std::size_t i = 0; i < kRejectReasons; ++i)
    rejected_[i] = &registry.counter("rejected_total", "Requests the router turned away",
                                     {{"reason", std::string(kRejects[i])}});
  retries_ = &registry.counter("retries_total", "Attempts repeated before a token reached the client");
  resumes_ = &registry.counter("resumes_total", "Streams continued on other workers after tokens were sent");
  transfer_ =
      &registry.histogram("kv_transfer_seconds", "First KV push posted to last acknowledged, per sequence",
                          token_seconds_bounds());
  exposed_ = &registry.histogram("kv_transfer_exposed_seconds",
                                 "The part of the KV transfer that computing did not hide, per sequence",
                                 token_seconds_bounds());
  registry
      .gauge("build_info", "1, with the version as a label",
             {{"service", "router"}, {"version", std::string(version())}})
      .Set(1);
}

void RouterMetrics::slo(std::size_t slo_class, const SloOutcome& outcome) {
  const std::array<bool, 3> met{outcome.ttft, outcome.tpot, outcome.all};
  for (std::size_t i = 0; i < met.size(); ++i) classes_[slo_class].slo[i][met[i] ? 1 : 0]->Increment();
}

void RouterMetrics::request_done(int code) {
  auto& counter = by_code_[code];
  if (counter == nullptr)
    counter = &registry_.counter("requests_total", "API requests by status code; 499 = the client hung up",
                                 {{"code", std::to_string(code)}});
  counter->Increment();
}

void RouterMetrics::selected(const std::string& worker) {
  auto& counter = by_worker_[worker];
  if (counter == nullptr)
    counter = &registry_.counter("selected_total", "Times a worker was picked for a sequence",
                                 {{"worker", worker}, {"policy", policy_}});
  counter->Increment();
}

void RouterMetrics::transferred(double total_seconds, double exposed_seconds) {
  transfer_->Observe(total_seconds);
  exposed_->Observe(exposed_seconds);
}

void RouterMetrics::put_aside(const std::string& worker) {
  registry_
      .counter("worker_put_aside_total", "Times a worker was put aside because its KV transfers kept failing",
               {{"worker", worker}})
      .Increment();
}

void RouterMetrics::workers(std::string_view role, std::size_t serving, std::size_t aside,
                            std::size_t registered) {
  const auto set = [&](const char* state, std::size_t count) {
    registry_.gauge("workers", "Workers known to the router", {{"role", std::string(role)}, {"state", state}})
        .Set(static_cast<double>(count));
  };
  set("serving", serving);
  set("put_aside", aside);
  set("away", registered - serving - aside);
}

}  // namespace lynx
