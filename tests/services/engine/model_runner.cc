#include "tests/services/engine/model_runner.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "services/engine/moe_transformer.h"

namespace lynx::testing {
namespace {
constexpr std::uint32_t kPoolTokens = 6144;
}

ModelRunner::ModelRunner(Model& model, KvDtype dtype, std::uint32_t block_tokens, std::uint64_t scramble)
    : model_(model), cache_(page_layout(model.config(), kPoolTokens / block_tokens, block_tokens, dtype)) {
  order_.resize(cache_.layout().blocks);
  std::iota(order_.begin(), order_.end(), 0);
  if (scramble != 0) std::shuffle(order_.begin(), order_.end(), std::mt19937_64(scramble));
}

std::vector<BlockId> ModelRunner::take_blocks(std::uint32_t tokens) {
  const std::uint32_t count = cache_.layout().blocks_for(tokens);
  std::vector<BlockId> out(order_.begin() + static_cast<std::ptrdiff_t>(taken_),
                           order_.begin() + static_cast<std::ptrdiff_t>(taken_ + count));
  taken_ += count;
  return out;
}

std::vector<float> ModelRunner::run(std::span<const TokenId> tokens, std::uint32_t chunk,
                                    const RoutePolicy& policy) {
  taken_ = 0;
  const std::vector<BlockId> blocks = take_blocks(static_cast<std::uint32_t>(tokens.size()));
  std::vector<float> out;
  StepResult result;
  for (std::size_t at = 0; at < tokens.size(); at += chunk) {
    const std::span<const TokenId> now = tokens.subspan(at, std::min<std::size_t>(chunk, tokens.size() - at));
    const auto rows = static_cast<std::uint32_t>(now.size());
    const SequenceRows sequence{0, rows, static_cast<std::uint32_t>(at), blocks};
    std::vector<std::uint32_t> all(rows);
    std::iota(all.begin(), all.end(), 0);
    model_.forward({now, {&sequence, 1}, all, {}, policy}, cache_, result, nullptr);
    out.insert(out.end(), result.logits.begin(), result.logits.end());
  }
  return out;
}

std::vector<std::vector<float>> ModelRunner::run_together(std::span<const std::vector<TokenId>> prompts,
                                                          std::uint32_t chunk) {
  taken_ = 0;
  std::vector<std::vector<BlockId>> blocks;
  std::size_t longest = 0;
  for (const auto& prompt : prompts) {
    blocks.push_back(take_blocks(static_cast<std::uint32_t>(prompt.size())));
    longest = std::max(longest, prompt.size());
  }
  std::vector<std::vector<float>> out(prompts.size());
  StepResult result;
  for (std::size_t at = 0; at < longest; at += chunk) {
    std::vector<TokenId> tokens;
    std::vector<SequenceRows> sequences;
    std::vector<std::size_t> owner;  // of each row
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      if (prompts[p].size() <= at) continue;
      const auto rows = static_cast<std::uint32_t>(std::min<std::size_t>(chunk, prompts[p].size() - at));
      sequences.push_back(
          {static_cast<std::uint32_t>(tokens.size()), rows, static_cast<std::uint32_t>(at), blocks[p]});
      for (std::size_t i = at; i < at + rows; ++i) tokens.push_back(prompts[p][i]);
      owner.insert(owner.end(), rows, p);
    }
    std::vector<std::uint32_t> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    model_.forward({tokens, sequences, all, {}, {}}, cache_, result, nullptr);
    const std::size_t vocab = model_.config().vocab;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const auto begin = result.logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
      out[owner[row]].insert(out[owner[row]].end(), begin, begin + static_cast<std::ptrdiff_t>(vocab));
    }
  }
  return out;
}

}  // namespace lynx::testing
