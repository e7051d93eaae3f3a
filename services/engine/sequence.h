// One sequence on its way through an engine: its tokens, how many of them are in the KV cache, and what ends
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/core/clock.h"
#include "common/kv/page_layout.h"
#include "common/text/token.h"
#include "services/engine/expert_counts.h"
#include "services/engine/model.h"
#include "services/engine/sampling_params.h"

namespace lynx {

using SequenceId = std::uint64_t;  // unique for the engine's lifetime

// A step is of one phase: prefill rows are always routed exactly, decode rows by the configured policy.
enum class Phase : std::uint8_t { kPrefill, kDecode };

struct Sequence {
  SequenceId id = 0;
  Phase phase = Phase::kPrefill;
  std::vector<TokenId> tokens;      // prompt, then generated (a resume arrives with some)
  std::uint32_t prompt_tokens = 0;  // how many of them are prompt
  std::uint32_t cached = 0;         // how many of them are in the KV cache
  std::vector<BlockId> blocks;      // block table, covers every token that this engine will cache
  SamplingParams sampling;
  Clock::time_point deadline;
  bool one_token = false;      // prefill worker: the sequence leaves with its first sampled token
  ExpertCounts expert_counts;  // prefill steps add to them where somebody asked

  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t uncached() const { return length() - cached; }
  std::uint32_t generated() const { return length() - prompt_tokens; }
};

// Tokens that will be in the cache when the sequence ends at the latest: the last token is sampled and never
// fed back.
std::uint32_t max_cached_tokens(std::uint32_t length, std::uint32_t prompt_tokens,
                                const SamplingParams& sampling, std::uint32_t context);

// What the token appended last means for the sequence. It holds for a first token that another worker
// sampled, too.
FinishReason finish_after(const Sequence& sequence, const ModelConfig& model);

// What a request must satisfy before it may become a sequence: tokens inside the vocabulary, room in the
// context for one more, something left to generate.
Status check_request(const std::vector<TokenId>& tokens, std::uint32_t generated,
                     const SamplingParams& sampling, const ModelConfig& model);

}  // namespace lynx
