// What a model needs room for: of a step, and of a KV pool.
#pragma once

#include <cstdint>
#include <limits>

#include "common/kv/page_layout.h"
#include "kernels/backend.h"
#include "services/engine/model.h"

namespace lynx {

inline constexpr std::uint32_t kAnyContext = std::numeric_limits<std::uint32_t>::max();

// The largest step, as a backend makes room for it. max_context: see ModelOptions.
StepLimits step_limits(const ModelConfig& config, std::uint32_t rows, std::uint32_t logit_rows,
                       std::uint32_t max_context = kAnyContext);

// The pool that fits the model.
PageLayout page_layout(const ModelConfig& config, std::uint32_t blocks, std::uint32_t block_tokens,
                       KvDtype dtype);

// Tokens of the longest sequence: the model's context, or what the pool holds.
std::uint32_t longest_context(const ModelConfig& config, const PageLayout& layout);

}  // namespace lynx
