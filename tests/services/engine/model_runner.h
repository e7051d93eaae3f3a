// Runs a model over whole prompts, cut into chunks and laid into a pool at will.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "services/engine/kv_cache.h"
#include "services/engine/model.h"

namespace lynx::testing {

class ModelRunner {
 public:
  // scramble: block tables are shuffled by this seed; 0 leaves them in order.
  ModelRunner(Model& model, KvDtype dtype, std::uint32_t block_tokens = 16, std::uint64_t scramble = 0);

  // Logits [T, vocab] of a prompt alone, in chunks of at most `chunk` tokens.
  std::vector<float> run(std::span<const TokenId> tokens, std::uint32_t chunk,
                         const RoutePolicy& policy = {});

  // Logits of several prompts in one batch per chunk: [prompt][T, vocab].
  std::vector<std::vector<float>> run_together(std::span<const std::vector<TokenId>> prompts,
                                               std::uint32_t chunk);

 private:
  struct Part {  // what a prompt has in one step
    std::size_t prompt;
    SequenceRows rows;
  };
  std::vector<BlockId> take_blocks(std::uint32_t tokens);

  Model& model_;
  KvCache cache_;
  std::vector<BlockId> order_;  // the pool, in the order of handing out
  std::size_t taken_ = 0;
};

}  // namespace lynx::testing
