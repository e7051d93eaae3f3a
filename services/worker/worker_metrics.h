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

  void rejected(const std::string& reason);  // a Busy: no_blocks, batch_full, queue_full, draining
  void ended(ErrorCode code);                // a request that ended here with a fault
  void transfer_failed(ErrorCode code);
  void leases_expired(std::size_t count);
  void show_blocks(const KvLedger& ledger);
  void show_queue(std::size_t depth);

 private:
  MetricsRegistry& registry_;
  std::array<prometheus::Gauge*, kBlockStates> blocks_{};
  prometheus::Gauge& queue_depth_;
  prometheus::Counter& leases_expired_;
};

}  // namespace lynx
