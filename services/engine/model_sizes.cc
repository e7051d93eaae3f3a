#include "services/engine/model_sizes.h"

#include <algorithm>

namespace lynx {

StepLimits step_limits(const ModelConfig& config, std::uint32_t rows, std::uint32_t logit_rows,
                       std::uint32_t max_context) {
  return {.rows = rows,
          .logit_rows = logit_rows,
          .context = std::min(config.context, max_context),
          .q_heads = config.q_heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .vocab = config.vocab};
}

PageLayout page_layout(const ModelConfig& config, std::uint32_t blocks, std::uint32_t block_tokens,
                       KvDtype dtype) {
  return {.layers = config.layers,
          .blocks = blocks,
          .block_tokens = block_tokens,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .dtype = dtype};
}

std::uint32_t longest_context(const ModelConfig& config, const PageLayout& layout) {
  const std::uint64_t tokens = std::uint64_t{layout.blocks} * layout.block_tokens;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, config.context));
}

}  // namespace lynx
