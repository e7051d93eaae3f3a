// What the host hands to a worker's service. All of it outlives the service; IO thread, but for submit's
// queue.
#pragma once

#include "common/core/clock.h"
#include "common/kv/kv_ledger.h"
#include "services/engine/kv_cache.h"
#include "services/engine/model.h"
#include "services/worker/router_port.h"
#include "services/worker/wire.h"
#include "services/worker/worker_metrics.h"
#include "services/worker/worker_service.h"

namespace lynx {

struct WorkerParts {
  const ModelConfig& model;
  KvCache& cache;
  KvLedger& ledger;
  const Clock& clock;
  RouterPort& routers;
  WorkerMetrics& metrics;
  SubmitCommand submit;

  // Counts the end of a request that failed, and tells its router.
  void tell_ended(const WireId& wire, const Error& why, wire::FaultOf of = wire::FaultOf::kRequest) const;
};

}  // namespace lynx
