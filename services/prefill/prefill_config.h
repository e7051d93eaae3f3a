// Every setting of the prefill worker, listed once (see common/config). There is none for expert routing:
// prefill is exact.
#pragma once

#include <string>

#include "services/prefill/prefill_service.h"
#include "services/worker/worker_config.h"

namespace lynx {

struct PrefillConfig {
  WorkerConfig worker;
  std::int64_t max_batch = 16;  // so that a negative one is told the true range
  std::uint32_t chunk_tokens = 512;
  PrefillSettings settings;

  void describe(ConfigFields& fields);
  void validate() const;  // throws ConfigError naming the field
};

// Runs the worker until it is told to stop; returns the exit code. Throws what is wrong at start-up.
int run_prefill(const PrefillConfig& config);

}  // namespace lynx
