#include "services/worker/worker_metrics.h"

#include "common/core/version.h"

namespace lynx {

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry, const std::string& service)
    : registry_(registry),
      queue_depth_(registry.gauge("queue_depth", "Requests that wait for their turn on this worker")),
      leases_expired_(
          registry.counter("kv_leases_expired_total", "Leases whose KV did not arrive by their deadline")) {
  for (std::size_t i = 0; i < kBlockStates; ++i)
    blocks_[i] = &registry.gauge("kv_blocks", "KV blocks of this worker by state",
                                 {{"state", std::string(to_string(static_cast<BlockState>(i)))}});
  registry
      .gauge("build_info", "1; the labels say what runs",
             {{"service", service}, {"version", std::string(version())}})
      .Set(1);
}

void WorkerMetrics::rejected(const std::string& reason) {
  registry_.counter("rejected_total", "Requests that were not taken", {{"reason", reason}}).Increment();
}

void WorkerMetrics::ended(ErrorCode code) {
  registry_
      .counter("ended_total", "Requests that ended on this worker with a fault",
               {{"code", std::string(to_string(code))}})
      .Increment();
}

void WorkerMetrics::transfer_failed(ErrorCode code) {
  registry_
      .counter("kv_transfer_failures_total", "KV pushes that did not land",
               {{"reason", std::string(to_string(code))}})
      .Increment();
}

void WorkerMetrics::leases_expired(std::size_t count) {
  leases_expired_.Increment(static_cast<double>(count));
}

void WorkerMetrics::show_blocks(const KvLedger& ledger) {
  const auto counts = ledger.counts();
  for (std::size_t i = 0; i < kBlockStates; ++i) blocks_[i]->Set(counts[i]);
}

void WorkerMetrics::show_queue(std::size_t depth) { queue_depth_.Set(static_cast<double>(depth)); }

}  // namespace lynx
