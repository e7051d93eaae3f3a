// Logits against Hugging Face transformers, and the contract that a row's bits do not depend on how the batch
// is cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "services/engine/moe_transformer.h"
#include "tests/services/engine/golden_data.h"
#include "tests/services/engine/model_runner.h"
#include "tests/services/engine/row_closeness.h"
#include "tests/support/paths.h"

namespace lynx::testing {
namespace {

constexpr double kTolerance = 1e-3;    // L2 norm of the difference over the norm, per row
constexpr float kClearMargin = 0.02F;  // of logits: far above the difference, which is near 1e-5

const std::string kGolden = source_path("tests/golden/");

struct Case {
  std::string name;
  std::string model;  // folder
};

std::vector<Case> cases() {
  return {{"tiny_gqa", kGolden + "tiny_gqa"},
          {"tiny_raw_weights", kGolden + "tiny_raw_weights"},
          {"shipped", source_path("deploy/model")}};
}

std::unique_ptr<Model> load(const Case& c, unsigned threads = 2) {
  ModelOptions options;
  options.backend = {"cpu", threads};
  return load_model(c.model, options);
}

class Golden : public ::testing::TestWithParam<Case> {};

TEST_P(Golden, LogitsEqualTheReference) {
  const auto model = load(GetParam());
  const std::size_t vocab = model->config().vocab;
  ModelRunner runner(*model, KvDtype::kF32);
  double worst = 0;
  std::size_t clear = 0;
  for (const GoldenPrompt& prompt : read_golden(kGolden + GetParam().name + "/golden.safetensors")) {
    const std::vector<float> logits = runner.run(prompt.tokens, 512);
    for (std::size_t s = 0; s < prompt.rows.size(); ++s) {
      const double error = relative_error(&logits[prompt.rows[s] * vocab], &prompt.logits[s * vocab], vocab);
      EXPECT_LE(error, kTolerance) << "prompt of " << prompt.tokens.size() << ", position " << prompt.rows[s];
      worst = std::max(worst, error);
    }
    for (std::size_t t = 0; t < prompt.tokens.size(); ++t) {
      if (prompt.margin[t] < kClearMargin) continue;
      ++clear;
      const float* row = &logits[t * vocab];
      EXPECT_EQ(std::max_element(row, row + vocab) - row, prompt.top1[t]) << "position " << t;
    }
  }
  EXPECT_GT(clear, 1000U) << "the data decide nothing";
  std::printf("worst relative error %.2g, %zu clear positions\n", worst, clear);
}

TEST_P(Golden, ChunksChangeNoBit) {
  const auto model = load(GetParam());
  const auto prompts = read_golden(kGolden + GetParam().name + "/golden.safetensors");
  ModelRunner runner(*model, KvDtype::kF32);
  const std::vector<TokenId> tokens(prompts[3].tokens.begin(), prompts[3].tokens.begin() + 200);
  const std::vector<float> whole = runner.run(tokens, 2048);
  for (const std::uint32_t chunk : {1U, 7U, 64U, 128U}) {
    EXPECT_TRUE(same_bits(whole, runner.run(tokens, chunk))) << "chunks of " << chunk;
  }
  const std::vector<TokenId>& text = prompts.back().tokens;
  const std::vector<TokenId> longer(text.begin(), text.begin() + 700);
  EXPECT_TRUE(same_bits(runner.run(longer, 2048), runner.run(longer, 512)));
}

TEST_P(Golden, BatchMatesChangeNoBit) {
  const auto model = load(GetParam());
  ModelRunner runner(*model, KvDtype::kF32);
  std::vector<std::vector<TokenId>> prompts;
  for (const GoldenPrompt& prompt : read_golden(kGolden + GetParam().name + "/golden.safetensors")) {
    for (const std::size_t length : {1U, 2U, 5U, 33U, 150U}) {
      prompts.emplace_back(prompt.tokens.begin(),
                           prompt.tokens.begin() + std::min(length, prompt.tokens.size()));
    }
  }
  std::vector<std::vector<float>> alone;
  for (const auto& prompt : prompts) alone.push_back(runner.run(prompt, 512));
  for (const std::uint32_t chunk : {1U, 19U, 512U}) {
    const auto together = runner.run_together(prompts, chunk);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      EXPECT_TRUE(same_bits(together[p], alone[p])) << "prompt " << p << ", chunks of " << chunk;
    }
  }
}

TEST_P(Golden, BlocksAndThreadsChangeNoBit) {
  const auto model = load(GetParam());
  const auto prompts = read_golden(kGolden + GetParam().name + "/golden.safetensors");
  const std::vector<TokenId>& tokens = prompts[3].tokens;
  const std::vector<float> plain = ModelRunner(*model, KvDtype::kF32).run(tokens, 100);
  EXPECT_TRUE(same_bits(plain, ModelRunner(*model, KvDtype::kF32, 16, 7).run(tokens, 100)))
      << "scrambled blocks";
  EXPECT_TRUE(same_bits(plain, ModelRunner(*model, KvDtype::kF32, 5, 8).run(tokens, 100)))
      << "blocks of 5 tokens";
  const auto alone = load(GetParam(), 1);
  EXPECT_TRUE(same_bits(plain, ModelRunner(*alone, KvDtype::kF32).run(tokens, 100))) << "one thread";
  const auto many = load(GetParam(), 5);
  EXPECT_TRUE(same_bits(plain, ModelRunner(*many, KvDtype::kF32).run(tokens, 100))) << "five threads";
}

// bf16 keys and values are another rounding of the same model: close, and just as independent of chunking.
TEST_P(Golden, Bf16CacheIsCloseAndRowInvariant) {
  const auto model = load(GetParam());
  const std::size_t vocab = model->config().vocab;
  const auto prompts = read_golden(kGolden + GetParam().name + "/golden.safetensors");
  const GoldenPrompt& prompt = prompts[3];
  ModelRunner runner(*model, KvDtype::kBf16);
  const std::vector<float> logits = runner.run(prompt.tokens, 512);
  EXPECT_TRUE(same_bits(logits, runner.run(prompt.tokens, 64)));
  double mean = 0;
  for (std::size_t s = 0; s < prompt.rows.size(); ++s) {
    mean += relative_error(&logits[prompt.rows[s] * vocab], &prompt.logits[s * vocab], vocab) /
            static_cast<double>(prompt.rows.size());
  }
  EXPECT_LE(mean, 0.05);
  EXPECT_GT(mean, 1e-5) << "not rounded at all";
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace lynx::testing
