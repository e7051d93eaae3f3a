// Every setting of the decode worker, listed once (see common/config).
#pragma once

#include <cmath>
#include <string>

#include "kernels/lynx/policy.h"
#include "services/decode/decode_service.h"
#include "services/engine/drift_guard.h"
#include "services/worker/worker_config.h"

namespace lynx {

// The decimal that a float was written as: 0.8 and not 0.800000011920929.
inline double as_written(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

struct DecodeConfig {
  WorkerConfig worker;
  std::int64_t max_batch = 16;  // so that a negative one is told the true range
  std::uint32_t max_waiting = 16;
  std::chrono::milliseconds lease_timeout{30'000};

  std::string policy = "lynx";
  std::string weights{to_string(RoutePolicy{}.weights)};
  double window = 0;
  std::uint32_t bins = 0;
  double share = as_written(RoutePolicy{}.share);
  std::uint32_t keep = RoutePolicy{}.keep;
  std::uint32_t budget = 0;
  double energy = as_written(RoutePolicy{}.energy);
  std::uint32_t drift_every = 256;
  double drift_limit = 0.5;

  void describe(ConfigFields& fields);
  void validate() const;             // throws ConfigError naming the field
  RoutePolicy route_policy() const;  // after validate()
  DriftLimits drift() const;
  DecodeSettings settings() const;
};

// Runs the worker until it is told to stop; returns the exit code. Throws what is wrong at start-up.
int run_decode(const DecodeConfig& config);

}  // namespace lynx
