#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "services/engine/counter_rng.h"
#include "services/engine/sampler.h"

namespace lynx {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams greedy() {
  SamplingParams p;
  p.temperature = 0;
  p.max_tokens = 100;
  return p;
}

struct Call {
  std::vector<float> logits;
  SamplingParams params = greedy();
  std::vector<TokenId> tokens{0};
  std::uint32_t prompt_tokens = 1;
  std::vector<TokenId> eos{};

  Result<SampledTokenData> run() const {
    Sampler sampler;
    return sampler.sample(logits, params, {tokens, prompt_tokens, eos});
  }
};

// Draws at many positions with one seed; how often each token came.
std::map<TokenId, int> histogram(const std::vector<float>& logits, SamplingParams params, int draws) {
  Sampler sampler;
  std::map<TokenId, int> counts;
  params.seed = 42;
  std::vector<TokenId> tokens;
  for (int i = 0; i < draws; ++i) {
    tokens.assign(static_cast<std::size_t>(i % 997) + 1, 0);
    params.seed = static_cast<std::uint64_t>(i / 997);
    ++counts[sampler.sample(logits, params, {tokens, 1, {}})->token];
  }
  return counts;
}

SamplingParams sampled(float temperature = 1) {
  SamplingParams p;
  p.temperature = temperature;
  p.max_tokens = 100;
  return p;
}

TEST(CounterRng, MatchesTheKnownAnswersOfPhilox4x32) {  // Random123, kat_vectors
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Sampler, GreedyTakesTheBestAndOfEqualsTheSmallerId) {
  EXPECT_EQ((Call{{1, 5, 5, 2}}.run()->token), 1U);
  EXPECT_EQ((Call{{-kInf, -3, -kInf}}.run()->token), 1U);
}

TEST(Sampler, IndexCountsGeneratedTokens) {
  Call call{{1, 2}};
  call.tokens = {0, 1, 1, 0};
  call.prompt_tokens = 2;
  EXPECT_EQ(call.run()->index, 2U);
}

TEST(Sampler, RowsThatAreNoNumbersAreErrors) {
  for (const float bad : {kNan, kInf}) {
    Call call{{1, bad, 2}};
    ASSERT_FALSE(call.run().ok());
    EXPECT_EQ(call.run().error().code, ErrorCode::kInternal);
  }
  EXPECT_FALSE((Call{{-kInf, -kInf}}.run().ok()));
}

TEST(Sampler, LogitBiasMovesTheChoice) {
  Call call{{1, 2, 3}};
  call.params.logit_bias = {{0, 10}};
  EXPECT_EQ(call.run()->token, 0U);
  call.params.logit_bias = {{2, -100}};
  EXPECT_EQ(call.run()->token, 1U);
}

TEST(Sampler, MinTokensBansEndOfSequenceUntilThen) {
  Call call{{1, 9, 3}};
  call.eos = {1};
  call.params.min_tokens = 2;
  call.tokens = {0, 2};
  EXPECT_EQ(call.run()->token, 2U);
  call.tokens = {0, 2, 2};
  EXPECT_EQ(call.run()->token, 1U);
  Call nothing_else{{1}};
  nothing_else.eos = {0};
  nothing_else.params.min_tokens = 1;
  EXPECT_FALSE(nothing_else.run().ok());
}

// The penalties seen through the scores: a token with a penalty p loses against one that is lower by less
// than p.
TEST(Sampler, RepetitionPenaltyCountsThePromptOnceAndScalesBySign) {
  Call call{{4, 2.1F, -4, -7.9F}};
  call.tokens = {0, 0, 2};  // prompt only
  call.prompt_tokens = 3;
  call.params.repetition_penalty = 2;
  EXPECT_EQ(call.run()->token, 1U);  // 4 / 2 = 2 < 2.1; squared it would be 1
  call.logits = {4, 1.9F, -4, -7.9F};
  EXPECT_EQ(call.run()->token, 0U);
  call.logits = {-100, -100, -4, -7.9F};
  EXPECT_EQ(call.run()->token, 3U);  // -4 * 2 = -8 < -7.9
}

TEST(Sampler, PresenceAndFrequencyCountGeneratedTokensOnly) {
  Call call{{5, 4, 0}};
  call.tokens = {0, 0, 0};
  call.prompt_tokens = 3;
  call.params.presence_penalty = 2;
  call.params.frequency_penalty = 2;
  EXPECT_EQ(call.run()->token, 0U);  // nothing generated yet
  call.params.frequency_penalty = 0;
  call.prompt_tokens = 1;
  EXPECT_EQ(call.run()->token, 1U);  // 5 - 2 < 4
  call.params.presence_penalty = 0;
  call.params.frequency_penalty = 0.4F;
  EXPECT_EQ(call.run()->token, 0U);  // 5 - 2 * 0.4 > 4
  call.params.frequency_penalty = 0.6F;
  EXPECT_EQ(call.run()->token, 1U);  // 5 - 2 * 0.6 < 4
}

TEST(Sampler, PenaltiesLeaveNoTraceForTheNextCall) {
  Sampler sampler;
  SamplingParams p = greedy();
  p.presence_penalty = 10;
  const std::vector<float> logits{5, 4};
  const std::vector<TokenId> with{1, 0};
  const std::vector<TokenId> without{1};
  EXPECT_EQ(sampler.sample(logits, p, {with, 1, {}})->token, 1U);
  EXPECT_EQ(sampler.sample(logits, p, {without, 1, {}})->token, 0U);
}

TEST(Sampler, SamePlaceAndSeedDrawsTheSameAgain) {
  Call call{std::vector<float>(64, 0), sampled()};
  std::map<TokenId, int> by_position;
  for (int i = 0; i < 50; ++i) {
    call.tokens.push_back(0);
    const TokenId first = call.run()->token;
    EXPECT_EQ(call.run()->token, first);
    ++by_position[first];
  }
  EXPECT_GT(by_position.size(), 20U);
  const TokenId before = call.run()->token;
  bool differs = false;
  for (call.params.seed = 1; call.params.seed < 10; ++call.params.seed)
    differs |= call.run()->token != before;
  EXPECT_TRUE(differs);
}

// Pearson's chi-square of draws against softmax(logits / temperature), 7 degrees of freedom: below 24.3 at p
// = 0.001.
TEST(Sampler, TemperatureFollowsTheDistribution) {
  const std::vector<float> logits{0, 0.5F, 1, 1.5F, 2, -1, 0.25F, 1.25F};
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    std::vector<double> p;
    for (const float x : logits) p.push_back(std::exp(x / temperature));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    constexpr int kDraws = 40'000;
    const auto counts = histogram(logits, sampled(temperature), kDraws);
    double chi2 = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double expected = p[i] / sum * kDraws;
      const auto found = counts.find(static_cast<TokenId>(i));
      const double got = found == counts.end() ? 0 : found->second;
      chi2 += (got - expected) * (got - expected) / expected;
    }
    EXPECT_LT(chi2, 24.3) << "temperature " << temperature;
  }
}

std::vector<TokenId> support(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<TokenId> out;
  for (const auto& [token, count] : histogram(logits, params, 3000)) out.push_back(token);
  return out;
}

TEST(Sampler, TopKKeepsKWithTiesToTheSmallerId) {
  SamplingParams p = sampled();
  p.top_k = 2;
  EXPECT_EQ(support({1, 2, 2, 2, 0}, p), (std::vector<TokenId>{1, 2}));
  p.top_k = 50;
  EXPECT_EQ(support({1, 2, 2}, p).size(), 3U);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  SamplingParams p = sampled();
  p.top_p = 0.45F;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0}));
  p.top_p = 0.7F;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0, 1}));
  p.top_p = 0.9F;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0, 1, 2}));
  p.top_k = 2;  // top-p counts the mass that top-k leaves: 0.5 / 0.8 = 0.625 reaches 0.6
  p.top_p = 0.6F;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0}));
}

TEST(Sampler, MinPIsRelativeToTheBestAtTheTemperature) {
  const std::vector<float> logits{0, std::log(0.3F), std::log(0.05F)};
  SamplingParams p = sampled();
  p.min_p = 0.2F;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0, 1}));
  p.temperature = 2;  // sqrt(0.05) = 0.22
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0, 1, 2}));
  p.min_p = 1;
  EXPECT_EQ(support(logits, p), (std::vector<TokenId>{0}));
}

TEST(Sampler, LogprobsAreThoseOfTheRawDistribution) {
  Call call{{std::log(0.5F), std::log(0.3F), std::log(0.2F)}};
  call.params.logprobs = true;
  call.params.top_logprobs = 2;
  call.params.logit_bias = {{2, 100}};
  const auto out = call.run();
  EXPECT_EQ(out->token, 2U);
  EXPECT_NEAR(out->logprob, std::log(0.2F), 1e-6);
  ASSERT_EQ(out->top_logprobs.size(), 2U);
  EXPECT_EQ(out->top_logprobs[0].first, 0U);
  EXPECT_NEAR(out->top_logprobs[0].second, std::log(0.5F), 1e-6);
  EXPECT_EQ(out->top_logprobs[1].first, 1U);
}

TEST(Sampler, ExtremeLogitsStillSample) {
  Call call{{1e30F, -1e30F, 0}, sampled(0.01F)};
  EXPECT_EQ(call.run()->token, 0U);
  call.params.top_p = 0.5F;
  EXPECT_EQ(call.run()->token, 0U);
}

TEST(SamplingParams, WrongNumbersAreNamed) {
  const auto message = [](auto change) {
    SamplingParams p = greedy();
    change(p);
    const Status status = check_sampling(p, 10);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_NE(message([](auto& p) { p.temperature = kNan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.temperature = -1; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.min_p = kNan; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.repetition_penalty = 0; }).find("repetition_penalty"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.presence_penalty = kInf; }).find("presence_penalty"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.frequency_penalty = kNan; }).find("frequency_penalty"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) { p.max_tokens = 0; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.logit_bias = {{10, 1}}; }).find("logit_bias"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.logit_bias = {{1, kInf}}; }).find("logit_bias"), std::string::npos);
}

}  // namespace
}  // namespace lynx
