// Service classes: what a request was promised, and how long it may wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lynx {

struct SloClass {
  std::string name;
  std::chrono::milliseconds ttft{0};      // objective: time to first token; also orders the queue
  std::chrono::milliseconds tpot{0};      // objective: mean time per token after the first
  std::chrono::milliseconds deadline{0};  // from arrival to the last token; then the request fails with 504
  std::chrono::milliseconds queue_timeout{0};  // longest wait for a worker before 429
  std::uint64_t queue_limit = 0;               // sequences that may wait; more get 429 at once
};

}  // namespace lynx
