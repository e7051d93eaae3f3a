// A KV pool for a number of sequences of a length.
#pragma once

#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"

namespace lynx {

inline PageLayout lab_layout(const Model& model, std::uint32_t sequences, std::uint32_t tokens) {
  constexpr std::uint32_t kBlockTokens = 16;
  PageLayout layout = page_layout(model.config(), 0, kBlockTokens, KvDtype::kF32);
  layout.blocks = layout.blocks_for(tokens) * sequences;
  return layout;
}

}  // namespace lynx
