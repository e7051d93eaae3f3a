// From a trace to what is sent: a slice of it, faster or slower, fitted to the model's context. Pure: the
// same trace, options and seed give the same workload.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "loadtest/replay/slo.h"
#include "loadtest/replay/trace.h"

namespace lynx {

enum class LengthMode {
  kKeep,         // as recorded; what does not fit the context is refused by the server
  kClip,         // too long inputs and outputs are cut
  kScale,        // all lengths of the slice shrink by one factor, so that its longest request just fits
  kScaleInputs,  // only inputs shrink; outputs stay, up to max_output_tokens (unset: a quarter of the
                 // context)
};
Result<LengthMode> parse_length_mode(const std::string& text);
std::string to_string(LengthMode mode);

struct Slice {
  std::chrono::nanoseconds start{0};  // since the trace's first request
  std::chrono::nanoseconds duration{0};
};
// "569,60" or "10m,1m": start and duration.
Result<Slice> parse_slice(const std::string& text);

struct WorkloadOptions {
  std::optional<Slice> slice{};
  double speedup = 1;               // 2 = twice as fast
  bool spread_within_tick = false;  // requests of one timestamp spread evenly-random up to the next timestamp
  LengthMode lengths = LengthMode::kScale;
  std::uint32_t context = 0;            // most input + output tokens of a request; 0 = no limit
  std::uint32_t max_output_tokens = 0;  // 0 = no limit
  std::uint64_t max_requests = 0;       // the first so many of the slice; 0 = all
  std::uint64_t seed = 0;
};

struct PlannedRequest {
  std::chrono::nanoseconds at{0};  // since the start of the run
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> hash_ids{};
  std::size_t slo = 0;     // index of its class
  std::uint64_t seed = 0;  // of its own text and sampling
};

struct Workload {
  std::vector<PlannedRequest> requests;  // by time
  std::uint32_t block_tokens = 0;        // of one hash id, after scaling; 0 = no prefix identity
  double length_factor = 1;              // of the inputs; with kScale of the outputs too
};

// Errors begin with the option: nothing in the slice, a speedup that is not positive.
Result<Workload> plan_workload(const Trace& trace, const WorkloadOptions& options,
                               const std::vector<SloTarget>& slos);

}  // namespace lynx
