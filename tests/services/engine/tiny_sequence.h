// Sequences for the tiny golden models.
#pragma once

#include <cstdint>

#include "services/engine/sequence.h"

namespace lynx::testing {

inline constexpr std::uint32_t kTinyBlocks = 8;  // that each sequence has, of 8 tokens

// Number s of a batch: six tokens of its own, greedy, to the last of max_tokens.
inline Sequence tiny_sequence(std::uint32_t s, std::uint32_t max_tokens) {
  Sequence out;
  out.id = s;
  for (std::uint32_t i = 0; i < 6; ++i) out.tokens.push_back((s * 41 + i * 13) % 250 + 3);
  out.prompt_tokens = 6;
  for (BlockId b = 0; b < kTinyBlocks; ++b) out.blocks.push_back(s * kTinyBlocks + b);
  out.sampling.temperature = 0;
  out.sampling.max_tokens = max_tokens;
  out.sampling.ignore_eos = true;
  out.deadline = Clock::time_point::max();
  return out;
}

}  // namespace lynx::testing
