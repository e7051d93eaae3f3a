// Workers whose costs a reader can add up by hand, and workloads to give them.
#pragma once

#include <cmath>
#include <functional>

#include "loadtest/capacity/worker_cost.h"
#include "loadtest/replay/workload.h"

namespace lynx::testing {

// Every step takes step_s whatever the batch, every prompt prefill_s.
inline WorkerCost flat_cost(double prefill_s, double step_s, std::uint32_t max_batch,
                            std::uint64_t kv_tokens = 1'000'000) {
  WorkerCost::Coefficients c;
  c.fixed_s = step_s;
  c.prefill_fixed_s = prefill_s;
  c.max_batch = max_batch;
  c.kv_tokens = kv_tokens;
  return {c, UniqueExperts(known_model_shapes()[0], UniqueExperts::Policy::kExact)};
}

inline std::vector<PlannedRequest> every(double gap_s, std::size_t n, std::uint32_t input,
                                         std::uint32_t output) {
  std::vector<PlannedRequest> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i].at = std::chrono::nanoseconds(std::llround(1e9 * gap_s * static_cast<double>(i)));
    out[i].input_tokens = input;
    out[i].output_tokens = output;
  }
  return out;
}

}  // namespace lynx::testing
