// The metrics that both kinds of worker keep about their blocks, queues and transfers (design section 10). IO
// thread.
#pragma once

#include <array>
#include <string>

#include "common/core/result.h"
#include "common/kv/kv_ledger.h"
#include "common/metrics/registry.h"

namespace lynx {

class WorkerMetrics {
 public:
  WorkerMetrics(MetricsRegistry& registry, const std::string& service);

  void show_device(const std::string& device, const std::string& kv_path);
  void rejected(const std::string& reason);  // a Busy: no_blocks, batch_full, queue_full, draining
  void ended(ErrorCode code);                // a request that ended here with a fault
  void transfer_failed(ErrorCode code);
  void leases_expired(std::size_t count);
  // held: blocks of the requests that the worker knows.
  void show_blocks(const KvLedger& ledger, std::uint32_t held);
  void show_sequences(std::uint32_t running, std::uint32_t waiting);
  void show_slots(std::uint32_t slots);
  // allowed: as configured; chosen: what UCX ended up with, empty before the first connection.
  void show_transport(const std::string& allowed, const std::string& chosen);
  void show_queue(std::size_t depth);

 private:
  void start_at_zero();
  prometheus::Counter& rejections(const std::string& reason);
  prometheus::Counter& endings(ErrorCode code);
  prometheus::Counter& transfer_failures(ErrorCode code);

  MetricsRegistry& registry_;
  std::array<prometheus::Gauge*, kBlockStates> blocks_{};
  prometheus::Gauge& queue_depth_;
  prometheus::Counter& leases_expired_;
  prometheus::Counter& leases_granted_;
  prometheus::Gauge& leases_;
  prometheus::Gauge& orphans_;
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& slots_;
  prometheus::Gauge* transport_ = nullptr;
};

}  // namespace lynx
