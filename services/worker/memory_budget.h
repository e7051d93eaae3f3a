// What a worker will take of this machine's memory, said before it takes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/kv/page_layout.h"
#include "services/engine/model.h"
#include "services/worker/kv_path.h"

namespace lynx {

struct MemoryBudget {
  std::uint64_t weights = 0;  // bytes, as the engine keeps them
  std::uint64_t kv_pool = 0;
  std::uint64_t activations = 0;     // of the largest step
  std::uint64_t workspace = 0;       // of a GPU's kernels
  std::uint64_t process = 64 << 20;  // code, sockets, UCX; on a GPU: graphs, libraries

  std::uint64_t total() const { return weights + kv_pool + activations + workspace + process; }
  std::string describe() const;  // "weights 27.3 MiB + KV pool ... = ... MiB"
};

// rows: of the largest step; logit_rows: how many of them may ask for logits.
MemoryBudget memory_budget(const ModelConfig& model, const PageLayout& layout, std::uint32_t rows,
                           std::uint32_t logit_rows);

// The same for a worker that computes on a GPU: of the GPU's memory, to the byte but for `process`, and of
// the machine's, where the KV pool that is pushed may lie.
MemoryBudget gpu_memory_budget(const ModelConfig& model, const PageLayout& layout, std::uint32_t rows,
                               std::uint32_t logit_rows);
MemoryBudget memory_budget_beside_gpu(const ModelConfig& model, const PageLayout& layout,
                                      std::uint32_t logit_rows, KvPath path);

// What this process may still take: the least of the machine's available memory and its control group's
// limit. Empty when the system does not say.
std::optional<std::uint64_t> available_memory();

}  // namespace lynx
