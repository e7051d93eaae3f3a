#include "services/worker/memory_budget.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "kernels/device_budget.h"
#include "services/engine/moe_transformer.h"

namespace lynx {
namespace {

constexpr std::uint64_t kBf16 = 2;
constexpr std::uint64_t kF32 = 4;

std::uint64_t weight_bytes(const ModelConfig& model) {
  const std::uint64_t hidden = model.hidden;
  const std::uint64_t q = std::uint64_t{model.q_heads} * model.head_dim;
  const std::uint64_t kv = std::uint64_t{model.kv_heads} * model.head_dim;
  const std::uint64_t matrices = hidden * (q + 2 * kv) + q * hidden + hidden * model.router.experts;
  const std::uint64_t norms = 2 * hidden + 2 * std::uint64_t{model.head_dim};
  const std::uint64_t layer = matrices * kBf16 + norms * kF32 + model.router.experts * model.expert_bytes();
  const std::uint64_t embedding = std::uint64_t{model.vocab} * hidden * kBf16;
  const std::uint64_t rope = std::uint64_t{model.context} * model.head_dim * kF32;
  // The head is packed for the matmul, so it is there beside the embedding even when the two are tied.
  return layer * model.layers + 2 * embedding + hidden * kF32 + rope;
}

std::uint64_t activation_bytes(const ModelConfig& model, std::uint64_t rows, std::uint64_t logit_rows) {
  const std::uint64_t q = std::uint64_t{model.q_heads} * model.head_dim;
  const std::uint64_t kv = std::uint64_t{model.kv_heads} * model.head_dim;
  const std::uint64_t row = 2 * std::uint64_t{model.hidden} + 2 * q + 2 * kv + model.router.experts;
  // Logits twice: the backend's and those read back for sampling.
  return kF32 * (rows * row + logit_rows * (model.hidden + 2 * std::uint64_t{model.vocab}));
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // missing, or "max"
}

std::optional<std::uint64_t> machine_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") return kib << 10;
  }
  return std::nullopt;
}

std::string mib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::string MemoryBudget::describe() const {
  return "weights " + mib(weights) + " + KV pool " + mib(kv_pool) + " + activations " + mib(activations) +
         (workspace > 0 ? " + workspace " + mib(workspace) : "") + " + process " + mib(process) + " = " +
         mib(total());
}

MemoryBudget memory_budget(const ModelConfig& model, const PageLayout& layout, std::uint32_t rows,
                           std::uint32_t logit_rows) {
  MemoryBudget budget;
  budget.weights = weight_bytes(model);
  budget.kv_pool = layout.pool_bytes();
  budget.activations = activation_bytes(model, rows, logit_rows);
  return budget;
}

MemoryBudget gpu_memory_budget(const ModelConfig& model, const PageLayout& layout, std::uint32_t rows,
                               std::uint32_t logit_rows) {
  const DeviceBudget device =
      device_budget({.layers = model.layers,
                     .hidden = model.hidden,
                     .intermediate = model.moe_intermediate,
                     .context = model.context,
                     .router = model.router,
                     .limits = step_limits(model, rows, logit_rows, longest_context(model, layout)),
                     .block_tokens = layout.block_tokens});
  MemoryBudget budget;
  budget.weights = device.weights;
  budget.kv_pool = layout.pool_bytes();
  budget.activations = device.activations;
  budget.workspace = std::max(device.workspace, device.loading);
  budget.process = kDeviceReserve;
  return budget;
}

MemoryBudget memory_budget_beside_gpu(const ModelConfig& model, const PageLayout& layout,
                                      std::uint32_t logit_rows, KvPath path) {
  MemoryBudget budget;
  budget.kv_pool = memory_of(path) == KvMemory::kHost ? layout.pool_bytes() : 0;
  budget.activations = 2 * kF32 * std::uint64_t{logit_rows} * model.vocab;  // read back, and to be sampled
  budget.process = std::uint64_t{512} << 20;                                // and the driver's own
  return budget;
}

std::optional<std::uint64_t> available_memory() {
  std::optional<std::uint64_t> available = machine_memory();
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const std::uint64_t left = *limit > *used ? *limit - *used : 0;
    available = available ? std::min(*available, left) : left;
  }
  return available;
}

}  // namespace lynx
