#include "services/worker/worker_metrics.h"

#include "common/core/version.h"

namespace lynx {
namespace {

constexpr const char* kSequences = "sequences";
constexpr const char* kSequencesHelp =
    "Sequences on this worker: running in its engine, or waiting for their turn or their KV";

}  // namespace

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry, const std::string& service)
    : registry_(registry),
      queue_depth_(registry.gauge("queue_depth", "Requests that wait for their turn on this worker")),
      leases_expired_(
          registry.counter("kv_leases_expired_total", "Leases whose KV did not arrive by their deadline")),
      leases_granted_(registry.counter("kv_leases_granted_total", "Leases of KV blocks granted")),
      leases_(registry.gauge("kv_leases", "Leases of KV blocks that live now")),
      orphans_(
          registry.gauge("kv_orphan_blocks", "KV blocks taken that belong to no request of this worker")),
      running_(registry.gauge(kSequences, kSequencesHelp, {{"state", "running"}})),
      waiting_(registry.gauge(kSequences, kSequencesHelp, {{"state", "waiting"}})),
      slots_(registry.gauge("sequence_slots", "Sequences that one step of this worker holds at most")) {
  for (std::size_t i = 0; i < kBlockStates; ++i)
    blocks_[i] = &registry.gauge("kv_blocks", "KV blocks of this worker by state",
                                 {{"state", std::string(to_string(static_cast<BlockState>(i)))}});
  start_at_zero();
  registry
      .gauge("build_info", "1; the labels say what runs",
             {{"service", service}, {"version", std::string(version())}})
      .Set(1);
}

void WorkerMetrics::show_device(const std::string& device, const std::string& kv_path) {
  registry_
      .gauge("device_info",
             "1; the labels say what computes, and how KV gets to and from it: host, pinned, device",
             {{"device", device}, {"kv_path", kv_path}})
      .Set(1);
}

// A counter that appears with its first fault shows no rise: Prometheus needs the zero before it.
void WorkerMetrics::start_at_zero() {
  for (const char* reason : {"no_blocks", "batch_full", "queue_full", "draining"}) rejections(reason);
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kBusy, ErrorCode::kDeadlineExceeded,
        ErrorCode::kCancelled, ErrorCode::kUnavailable, ErrorCode::kIncompatible, ErrorCode::kPermission,
        ErrorCode::kCorrupt, ErrorCode::kInternal}) {
    endings(code);
    transfer_failures(code);
  }
}

prometheus::Counter& WorkerMetrics::rejections(const std::string& reason) {
  return registry_.counter("rejected_total", "Requests that were not taken", {{"reason", reason}});
}

prometheus::Counter& WorkerMetrics::endings(ErrorCode code) {
  return registry_.counter("ended_total", "Requests that ended on this worker with a fault",
                           {{"code", std::string(to_string(code))}});
}

prometheus::Counter& WorkerMetrics::transfer_failures(ErrorCode code) {
  return registry_.counter("kv_transfer_failures_total", "KV pushes that did not land",
                           {{"reason", std::string(to_string(code))}});
}

void WorkerMetrics::rejected(const std::string& reason) { rejections(reason).Increment(); }
void WorkerMetrics::ended(ErrorCode code) { endings(code).Increment(); }
void WorkerMetrics::transfer_failed(ErrorCode code) { transfer_failures(code).Increment(); }

void WorkerMetrics::leases_expired(std::size_t count) {
  leases_expired_.Increment(static_cast<double>(count));
}

void WorkerMetrics::show_blocks(const KvLedger& ledger, std::uint32_t held) {
  const auto counts = ledger.counts();
  for (std::size_t i = 0; i < kBlockStates; ++i) blocks_[i]->Set(counts[i]);
  const std::uint32_t taken = ledger.total_blocks() - ledger.free_blocks();
  orphans_.Set(taken > held ? taken - held : 0);
  leases_.Set(static_cast<double>(ledger.leases()));
  leases_granted_.Increment(static_cast<double>(ledger.granted()) - leases_granted_.Value());
}

void WorkerMetrics::show_sequences(std::uint32_t running, std::uint32_t waiting) {
  running_.Set(running);
  waiting_.Set(waiting);
}

void WorkerMetrics::show_slots(std::uint32_t slots) { slots_.Set(slots); }

void WorkerMetrics::show_transport(const std::string& allowed, const std::string& chosen) {
  if (chosen.empty()) return;
  auto& now =
      registry_.gauge("kv_transport_info", "1 for what UCX chose, and what it was allowed to choose from",
                      {{"allowed", allowed}, {"chosen", chosen}});
  if (transport_ != nullptr && transport_ != &now) transport_->Set(0);
  transport_ = &now;
  transport_->Set(1);
}

void WorkerMetrics::show_queue(std::size_t depth) { queue_depth_.Set(static_cast<double>(depth)); }

}  // namespace lynx
