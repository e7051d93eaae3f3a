#include "loadtest/replay/worker_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lynx {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double quotient(double a, double b) { return b > 0 ? a / b : kNothing; }

// A counter that went down was born again in between.
double gained(double before, double after) { return after >= before ? after - before : after; }

using Field = double WorkerSample::*;

// What all the workers gained between their i-th sample and the next.
double gained(const std::vector<const WorkerHistory*>& workers, std::size_t i, Field field) {
  double sum = 0;
  for (const WorkerHistory* worker : workers)
    if (i + 1 < worker->samples.size())
      sum += gained(worker->samples[i].*field, worker->samples[i + 1].*field);
  return sum;
}

double used_share(const WorkerSample& sample) {
  double all = 0, free = 0;
  for (const auto& [state, blocks] : sample.blocks) {
    all += blocks;
    if (state == "free") free = blocks;
  }
  return quotient(all - free, all);
}

WorkerCurves curves_of(const WorkerHistory& worker) {
  WorkerCurves out{.name = worker.name, .decodes = worker.decodes()};
  for (std::size_t i = 0; i + 1 < worker.samples.size(); ++i) {
    const WorkerSample &a = worker.samples[i], &b = worker.samples[i + 1];
    const double time = b.at_s - a.at_s;
    out.at_s.push_back(b.at_s);
    // A step counts when it ends, so a long one may seem to fill more than the time between two looks.
    out.busy.push_back(std::min(1.0, quotient(gained(a.step_seconds, b.step_seconds), time)));
    out.batch.push_back(quotient(gained(a.batch_sum, b.batch_sum), gained(a.batch_count, b.batch_count)));
    out.blocks_used.push_back(used_share(b));
  }
  return out;
}

}  // namespace

WorkerSample reduce(const MetricsText& scrape, double at_s) {
  WorkerSample out{.at_s = at_s};
  out.routed_sum = scrape.sum("lynx_unique_experts_sum", "stage=\"routed\"");
  out.routed_count = scrape.sum("lynx_unique_experts_count", "stage=\"routed\"");
  out.activated_sum = scrape.sum("lynx_unique_experts_sum", "stage=\"activated\"");
  out.activated_count = scrape.sum("lynx_unique_experts_count", "stage=\"activated\"");
  out.decode_steps = scrape.sum("lynx_step_seconds_count", "phase=\"decode\"");
  out.prefill_steps = scrape.sum("lynx_step_seconds_count", "phase=\"prefill\"");
  out.step_seconds = scrape.sum("lynx_step_seconds_sum");
  out.batch_sum = scrape.sum("lynx_batch_size_sum");
  out.batch_count = scrape.sum("lynx_batch_size_count");
  out.kv_bytes = scrape.sum("lynx_kv_transfer_bytes_total");
  out.kv_seconds = scrape.sum("lynx_kv_transfer_seconds_sum");
  out.kv_transfers = scrape.sum("lynx_kv_transfer_seconds_count");
  out.blocks = scrape.by_label("lynx_kv_blocks", "state");
  return out;
}

bool WorkerHistory::decodes() const {
  return !samples.empty() && samples.back().decode_steps > samples.back().prefill_steps;
}

std::vector<WorkerCurves> worker_curves(const std::vector<WorkerHistory>& workers) {
  std::vector<WorkerCurves> out;
  for (const WorkerHistory& worker : workers) out.push_back(curves_of(worker));
  return out;
}

FleetCurves fleet_curves(const std::vector<WorkerHistory>& workers) {
  std::vector<const WorkerHistory*> all, decode;
  for (const WorkerHistory& worker : workers) {
    all.push_back(&worker);
    if (worker.decodes()) decode.push_back(&worker);
  }
  FleetCurves out;
  const auto longest = std::ranges::max_element(workers, {}, [](const auto& w) { return w.samples.size(); });
  if (longest == workers.end()) return out;
  for (std::size_t i = 0; i + 1 < longest->samples.size(); ++i) {
    const double time = longest->samples[i + 1].at_s - longest->samples[i].at_s;
    out.at_s.push_back(longest->samples[i + 1].at_s);
    const auto mean = [i](const auto& of, Field sum, Field count) {
      return quotient(gained(of, i, sum), gained(of, i, count));
    };
    out.routed.push_back(mean(decode, &WorkerSample::routed_sum, &WorkerSample::routed_count));
    out.activated.push_back(mean(decode, &WorkerSample::activated_sum, &WorkerSample::activated_count));
    out.layer_steps.push_back(gained(decode, i, &WorkerSample::activated_count));
    out.batch.push_back(mean(decode, &WorkerSample::batch_sum, &WorkerSample::batch_count));
    out.kv_bytes_per_s.push_back(quotient(gained(all, i, &WorkerSample::kv_bytes), time));
    out.kv_ms.push_back(1e3 * mean(all, &WorkerSample::kv_seconds, &WorkerSample::kv_transfers));
  }
  return out;
}

}  // namespace lynx
