// Prompts and reference logits written by tests/golden/make_golden.py.
#pragma once

#include <string>
#include <vector>

#include "common/text/token.h"

namespace lynx::testing {

struct GoldenPrompt {
  std::vector<TokenId> tokens;      // [T]
  std::vector<std::uint32_t> top1;  // [T]
  std::vector<float> margin;        // [T] best logit minus second best
  std::vector<std::uint32_t> rows;  // [S] positions whose logits follow
  std::vector<float> logits;        // [S, V]
};

std::vector<GoldenPrompt> read_golden(const std::string& path);

}  // namespace lynx::testing
