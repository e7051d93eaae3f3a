#include <gtest/gtest.h>

#include "services/engine/scheduler.h"

namespace lynx {
namespace {

using std::chrono::seconds;
const Clock::time_point kStart{};

Sequence sequence(SequenceId id, std::uint32_t length, std::uint32_t cached, Phase phase,
                  int deadline_s = 100) {
  Sequence s;
  s.id = id;
  s.phase = phase;
  s.tokens.assign(length, 1);
  s.prompt_tokens = length;
  s.cached = cached;
  s.deadline = kStart + seconds(deadline_s);
  return s;
}

std::vector<std::pair<SequenceId, std::uint32_t>> rows(const StepPlan& plan) {
  std::vector<std::pair<SequenceId, std::uint32_t>> out;
  for (const auto& [s, n] : plan.slices) out.emplace_back(s->id, n);
  return out;
}
using Rows = std::vector<std::pair<SequenceId, std::uint32_t>>;

TEST(BatchScheduler, DecodesUpToTheBatchInOrderOfArrivalAndKeepsSlots) {
  BatchScheduler scheduler({2, 512});
  for (SequenceId id = 1; id <= 3; ++id)
    scheduler.add(sequence(id, 5, 4, Phase::kDecode, 100 - static_cast<int>(id)));
  EXPECT_EQ(rows(scheduler.plan(kStart)), (Rows{{1, 1}, {2, 1}}));
  EXPECT_TRUE(scheduler.remove(1));
  EXPECT_EQ(rows(scheduler.plan(kStart)), (Rows{{2, 1}, {3, 1}}));
  EXPECT_FALSE(scheduler.remove(1));
}

TEST(BatchScheduler, ChunksPromptsEarliestDeadlineFirst) {
  BatchScheduler scheduler({8, 10});
  scheduler.add(sequence(1, 25, 0, Phase::kPrefill, 50));
  scheduler.add(sequence(2, 4, 0, Phase::kPrefill, 20));
  scheduler.add(sequence(3, 6, 2, Phase::kPrefill, 50));
  StepPlan plan = scheduler.plan(kStart);
  EXPECT_EQ(plan.phase, Phase::kPrefill);
  EXPECT_EQ(rows(plan), (Rows{{2, 4}, {1, 6}}));
  plan.slices[0].sequence->phase = Phase::kDecode;
  plan.slices[1].sequence->cached = 6;
  EXPECT_EQ(rows(scheduler.plan(kStart)), (Rows{{1, 10}}));
}

TEST(BatchScheduler, PromptsTakeNoMoreSequencesThanTheBatch) {
  BatchScheduler scheduler({2, 100});
  for (SequenceId id = 1; id <= 3; ++id) scheduler.add(sequence(id, 3, 0, Phase::kPrefill));
  EXPECT_EQ(rows(scheduler.plan(kStart)), (Rows{{1, 3}, {2, 3}}));
}

// Each of the short ones arrives while the long one is under way, with the same time to its deadline.
TEST(BatchScheduler, AStreamOfShortPromptsStarvesNoLongOne) {
  BatchScheduler scheduler({8, 10});
  scheduler.add(sequence(1, 25, 0, Phase::kPrefill, 50));
  std::vector<std::uint32_t> of_the_long_one;
  for (int second = 1; scheduler.find(1)->cached < 25; ++second) {
    ASSERT_LE(second, 3);
    scheduler.add(sequence(1 + static_cast<SequenceId>(second), 10, 0, Phase::kPrefill, 50 + second));
    for (const auto& [s, n] : scheduler.plan(kStart + seconds(second)).slices) {
      if (s->id == 1) of_the_long_one.push_back(n);
      s->cached += n;
      if (s->uncached() == 0) s->phase = Phase::kDecode;
    }
  }
  EXPECT_EQ(of_the_long_one, (std::vector<std::uint32_t>{10, 10, 5}));
  EXPECT_EQ(rows(scheduler.plan(kStart + seconds(4))), (Rows{{2, 5}, {3, 5}})) << "which the rest went to";
}

TEST(BatchScheduler, AStepHasOnePhase) {
  BatchScheduler scheduler({8, 10});
  scheduler.add(sequence(1, 5, 4, Phase::kDecode));
  scheduler.add(sequence(2, 5, 0, Phase::kPrefill));
  EXPECT_EQ(rows(scheduler.plan(kStart)), (Rows{{2, 5}}));
  scheduler.remove(2);
  const StepPlan plan = scheduler.plan(kStart);
  EXPECT_EQ(plan.phase, Phase::kDecode);
  EXPECT_EQ(rows(plan), (Rows{{1, 1}}));
}

TEST(BatchScheduler, WhatIsPastItsDeadlineIsNamedAndNotRun) {
  BatchScheduler scheduler({8, 10});
  scheduler.add(sequence(1, 5, 4, Phase::kDecode, 10));
  scheduler.add(sequence(2, 5, 4, Phase::kDecode, 20));
  scheduler.add(sequence(3, 5, 0, Phase::kPrefill, 10));
  const StepPlan plan = scheduler.plan(kStart + seconds(10));
  EXPECT_EQ(plan.expired, (std::vector<SequenceId>{1, 3}));
  EXPECT_EQ(rows(plan), (Rows{{2, 1}}));
}

TEST(BatchScheduler, NothingToDoIsAnEmptyPlan) {
  BatchScheduler scheduler({8, 10});
  const StepPlan plan = scheduler.plan(kStart);
  EXPECT_TRUE(plan.slices.empty());
  EXPECT_TRUE(plan.expired.empty());
}

ModelConfig model() {
  ModelConfig config;
  config.vocab = 50;
  config.context = 20;
  config.eos = {7, 8};
  return config;
}

Sequence ending(std::vector<TokenId> tokens, std::uint32_t prompt, std::uint32_t max_tokens) {
  Sequence s;
  s.tokens = std::move(tokens);
  s.prompt_tokens = prompt;
  s.sampling.max_tokens = max_tokens;
  return s;
}

TEST(FinishAfter, EosMaxTokensAndTheContextsEnd) {
  EXPECT_EQ(finish_after(ending({1, 2, 3}, 1, 3), model()), FinishReason::kNone);
  EXPECT_EQ(finish_after(ending({1, 2, 3}, 1, 2), model()), FinishReason::kLength);
  EXPECT_EQ(finish_after(ending({1, 2}, 1, 1), model()), FinishReason::kLength);
  EXPECT_EQ(finish_after(ending({1, 8}, 1, 9), model()), FinishReason::kStop);
  EXPECT_EQ(finish_after(ending({1, 8}, 1, 1), model()), FinishReason::kStop);
  Sequence ignoring = ending({1, 8}, 1, 9);
  ignoring.sampling.ignore_eos = true;
  EXPECT_EQ(finish_after(ignoring, model()), FinishReason::kNone);
  EXPECT_EQ(finish_after(ending(std::vector<TokenId>(19, 1), 1, 99), model()), FinishReason::kNone);
  EXPECT_EQ(finish_after(ending(std::vector<TokenId>(20, 1), 1, 99), model()), FinishReason::kLength);
}

TEST(MaxCachedTokens, TheLastTokenIsNeverFedBack) {
  SamplingParams sampling;
  sampling.max_tokens = 5;
  EXPECT_EQ(max_cached_tokens(10, 10, sampling, 100), 14U);
  EXPECT_EQ(max_cached_tokens(12, 10, sampling, 100), 14U);  // resumed after two tokens
  EXPECT_EQ(max_cached_tokens(10, 10, sampling, 12), 11U);
  sampling.max_tokens = 1;
  EXPECT_EQ(max_cached_tokens(10, 10, sampling, 100), 10U);
  sampling.max_tokens = 0xFFFFFFFF;
  EXPECT_EQ(max_cached_tokens(10, 10, sampling, 100), 99U);
}

TEST(CheckRequest, RefusesWhatCannotBeServed) {
  SamplingParams sampling;
  sampling.max_tokens = 4;
  const auto check = [&](std::vector<TokenId> tokens, std::uint32_t generated) {
    return check_request(tokens, generated, sampling, model()).ok();
  };
  EXPECT_TRUE(check({1, 2, 3}, 0));
  EXPECT_TRUE(check({1, 2, 3}, 2));
  EXPECT_FALSE(check({}, 0));
  EXPECT_FALSE(check({1, 2}, 2));   // no prompt
  EXPECT_FALSE(check({1, 50}, 0));  // outside the vocabulary
  EXPECT_TRUE(check(std::vector<TokenId>(19, 1), 0));
  EXPECT_FALSE(check(std::vector<TokenId>(20, 1), 0));  // no room
  EXPECT_FALSE(check({1, 2, 3, 4, 5}, 4));              // all generated
}

}  // namespace
}  // namespace lynx
