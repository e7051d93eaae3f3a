// What a model will take of a device's memory, to the byte, before any of it is taken. A test on a GPU holds
// these sums against what the backend then holds.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace lynx {

struct DeviceNeeds {
  std::uint32_t layers = 0, hidden = 0, intermediate = 0;
  std::uint32_t context = 0;  // the model's: rows of its rotary table
  RouterShape router;
  StepLimits limits;               // before padding
  std::uint32_t block_tokens = 0;  // of the KV pool
};

struct DeviceBudget {
  std::uint64_t weights = 0;
  std::uint64_t activations = 0;  // of the largest step
  std::uint64_t workspace = 0;    // of the kernels, plans, rows and block tables
  std::uint64_t loading = 0;      // while weights are packed; free again before the workspace is taken
};

// Of the CUDA backend. Throws std::runtime_error in a build without it.
DeviceBudget device_budget(const DeviceNeeds& needs);

// Beside what is counted: captured graphs, the libraries' own memory.
inline constexpr std::uint64_t kDeviceReserve = std::uint64_t{512} << 20;

}  // namespace lynx
