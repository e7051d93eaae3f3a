// Prefill and decode in one process, without a transport: the yardstick that disaggregated serving is
// compared with, and the runner of offline benches. Same model, scheduler and sampler as the workers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "services/engine/engine_core.h"

namespace lynx {

struct MonolithRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
};

struct MonolithOutput {
  std::vector<SampledTokenData> tokens;
  Status status;  // ok: it finished
};

struct MonolithConfig {
  BatchLimits limits;
  RoutePolicy policy;  // of decode steps
};

// Runs all requests to their end, in batches as the limits and the pool of the cache allow; outputs in the
// order of the requests. Uses the whole pool.
std::vector<MonolithOutput> run_monolith(Model& model, KvCache& cache, const MonolithConfig& config,
                                         std::span<const MonolithRequest> requests);

}  // namespace lynx
