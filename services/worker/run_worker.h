// From a configuration to a running worker: reads the model's shape, says what memory it will take, and runs
// the host.
#pragma once

#include <cstdint>

#include "services/worker/worker_host.h"

namespace lynx {

inline constexpr int kExitNoMemory = 2;

struct WorkerPlan {
  std::string service;  // prefill, decode
  proto::Role role = proto::Role::DECODE;
  WorkerConfig config;
  EngineConfig engine;
  std::uint32_t step_rows = 0;  // of the largest step
  std::function<WorkerRole(RoleContext)> make_role;
};

// Runs until told to stop; returns the exit code, kExitNoMemory when the budget does not fit this machine.
// Throws what is wrong at start-up. Call init_logging first.
int run_worker(WorkerPlan plan);

}  // namespace lynx
