// A worker table with a clock of its own, and workers to register with it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "services/router/worker_table.h"

namespace lynx::testing {

inline WorkerInfo worker(WorkerRole role, const std::string& name) {
  WorkerInfo info;
  info.name = name;
  info.incarnation = 1;
  info.role = role;
  info.context_tokens = 2048;
  info.block_tokens = 16;
  info.total_blocks = 64;
  info.max_batch = 4;
  return info;
}

class WorkerTableRig : public ::testing::Test {
 protected:
  WorkerTableRig() : table_(config()) {}
  static WorkerTableConfig config() {
    WorkerTableConfig out;
    out.decode_overcommit = 1.5;
    return out;
  }
  WorkerTable table_;
  ManualClock clock_;
};

}  // namespace lynx::testing
