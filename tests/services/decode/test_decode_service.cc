#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

// One that generates all its tokens.
Ask unstopped(std::uint64_t request, std::uint32_t length, std::uint32_t max_tokens, LinkId link = 1) {
  Ask out = ask(request, length);
  out.wire.link = link;
  out.sampling.max_tokens = max_tokens;
  out.sampling.ignore_eos = true;
  return out;
}

TEST(DecodeService, ALeaseCoversPromptAndTokensAllOrNothing) {
  PairOptions options;
  options.decode_blocks = 10;  // of 4 tokens
  PairBench bench(options);
  bench.reserve(unstopped(1, 8, 13));  // 8 + 12 cached tokens: 5 blocks
  ASSERT_EQ(bench.decode_side.port.leases.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.leases[0].blocks.size(), 2U);  // the prompt's part
  EXPECT_EQ(bench.decode_side.ledger.free_blocks(), 5U);
  bench.reserve(unstopped(2, 8, 17));  // 6 blocks
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "no_blocks");
  EXPECT_EQ(bench.decode_side.ledger.free_blocks(), 5U);
  bench.reserve(unstopped(3, 8, 40));  // 12 blocks: never
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kInvalidArgument);
}

TEST(DecodeService, RefusesWhatCannotBeServedByName) {
  PairBench bench;
  const auto expect_ended = [&](const Ask& a, const char* word) {
    bench.reserve(a);
    ASSERT_FALSE(bench.decode_side.port.ended.empty());
    EXPECT_NE(bench.decode_side.port.ended.back().message.find(word), std::string::npos)
        << bench.decode_side.port.ended.back().message;
    EXPECT_TRUE(bench.decode_service.idle());
    EXPECT_TRUE(bench.all_free());
  };
  Ask a = unstopped(1, 8, 5);
  a.tokens[2] = 101;
  expect_ended(a, "tokens[2]");
  a = unstopped(1, 256, 5);
  expect_ended(a, "context");
  a = unstopped(1, 0, 5);
  expect_ended(a, "empty");
  a = unstopped(1, 8, 0);
  expect_ended(a, "max_tokens");
  a = unstopped(1, 8, 3);
  a.generated = 3;
  expect_ended(a, "max_tokens");
  a = unstopped(1, 8, 3);
  a.sampling.top_p = 0;
  expect_ended(a, "top_p");
}

TEST(DecodeService, TheSameIdTwiceIsRefusedAndTheFirstGoesOn) {
  PairBench bench;
  const Ask a = unstopped(1, 8, 5);
  bench.start(a);
  bench.reserve(a);
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  bench.run();
  EXPECT_EQ(bench.generated(a.wire).size(), 5U);
}

// Field report 10: overload has an end and an answer.
TEST(DecodeService, BeyondItsSequencesItIsBusyWithATime) {
  PairOptions options;
  options.decode.max_sequences = 3;
  PairBench bench(options);
  for (std::uint64_t i = 1; i <= 4; ++i) bench.start(unstopped(i, 8, 20));
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "batch_full");
  EXPECT_GE(bench.decode_side.port.busy[0].retry_after_ms, 10U);
  bench.run();
  bench.start(unstopped(5, 8, 20));
  bench.run();
  EXPECT_EQ(bench.generated({1, 5}).size(), 20U);
}

TEST(DecodeService, OneTokensFramePerRouterAndStep) {
  PairOptions options;
  options.prefill_limits = {8, 64};  // all three prompts in one step: they decode together
  PairBench bench(options);
  bench.start(unstopped(1, 8, 9, 1));
  bench.start(unstopped(2, 8, 9, 1));
  bench.start(unstopped(1, 8, 9, 2));
  bench.run();
  EXPECT_EQ(bench.decode_side.port.tokens.size(), 3U * 8);
  std::map<std::pair<std::uint64_t, LinkId>, std::size_t> frames;
  for (const HeardFrame& frame : bench.decode_side.port.token_frames) {
    EXPECT_EQ(++frames[std::pair(frame.step, frame.link)], 1U);
    EXPECT_EQ(frame.items, frame.link == 1 ? 2U : 1U);
  }
  EXPECT_EQ(frames.size(), 2U * 8);
  EXPECT_EQ(bench.decode_side.port.tokens.back().finish, proto::FinishReason::LENGTH);
}

TEST(DecodeService, DrainingTakesNothingNewAndFinishesTheRest) {
  PairBench bench;
  bench.start(unstopped(1, 8, 9));
  bench.turn();
  bench.decode_service.drain();
  bench.start(unstopped(2, 8, 9));
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "draining");
  bench.run();
  EXPECT_EQ(bench.generated({1, 1}).size(), 9U);
  EXPECT_TRUE(bench.decode_service.idle());
}

TEST(DecodeService, AbandonedRequestsEndWithTheCauseAndFreeTheirBlocks) {
  PairBench bench;
  bench.start(unstopped(1, 8, 50));
  bench.start(unstopped(2, 40, 50));
  for (int i = 0; i < 3; ++i) bench.turn();
  bench.decode_service.abandon({ErrorCode::kUnavailable, "shuts down"});
  EXPECT_EQ(bench.decode_side.port.ended.size(), 2U);
  bench.run();
  EXPECT_TRUE(bench.all_free());
}

TEST(DecodeService, AStepThatFailsTeachesNothingOfWhatStepsCost) {
  const Ask bad = unstopped(2, 8, 6);
  PairOptions options;
  options.model.throw_token = generated_alone(bad).front();  // its first decode step
  PairBench bench(options);
  bench.start(unstopped(1, 8, 6));
  bench.run();
  const auto compared = [&](int steps) {
    const std::string line = "lynx_step_predicted_seconds_count " + std::to_string(steps) + "\n";
    return bench.decode_side.registry.serialize().find(line) != std::string::npos;
  };
  ASSERT_EQ(bench.generated({1, 1}).size(), 6U);
  EXPECT_TRUE(compared(4)) << "of five decode steps the first has nothing to be compared with";
  bench.start(bad);
  bench.run();
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kInternal);
  EXPECT_TRUE(compared(4));
}

TEST(DecodeService, ARunningSequencePastItsDeadlineEnds) {
  PairBench bench;
  Ask a = unstopped(1, 8, 200);
  a.deadline_ms = 100;
  bench.start(a);
  for (int i = 0; i < 4; ++i) bench.turn();
  bench.clock.advance(milliseconds(100));
  bench.run();
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(bench.all_free());
}

}  // namespace
}  // namespace lynx::testing
