#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

Ask ask(std::uint64_t request, std::uint32_t length, std::uint32_t max_tokens, LinkId link = 1) {
  Ask out;
  out.wire = {link, request};
  out.tokens.assign(length, static_cast<TokenId>(request % 50 + 1));
  out.sampling.max_tokens = max_tokens;
  out.sampling.ignore_eos = true;
  return out;
}

TEST(DecodeService, ALeaseCoversPromptAndTokensAllOrNothing) {
  PairOptions options;
  options.decode_blocks = 10;  // of 4 tokens
  PairBench bench(options);
  bench.reserve(ask(1, 8, 13));  // 8 + 12 cached tokens: 5 blocks
  ASSERT_EQ(bench.decode_side.port.leases.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.leases[0].blocks.size(), 2U);  // the prompt's part
  EXPECT_EQ(bench.decode_side.ledger.free_blocks(), 5U);
  bench.reserve(ask(2, 8, 17));  // 6 blocks
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "no_blocks");
  EXPECT_EQ(bench.decode_side.ledger.free_blocks(), 5U);
  bench.reserve(ask(3, 8, 40));  // 12 blocks: never
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
  Ask a = ask(1, 8, 5);
  a.tokens[2] = 101;
  expect_ended(a, "tokens[2]");
  a = ask(1, 256, 5);
  expect_ended(a, "context");
  a = ask(1, 0, 5);
  expect_ended(a, "empty");
  a = ask(1, 8, 0);
  expect_ended(a, "max_tokens");
  a = ask(1, 8, 3);
  a.generated = 3;
  expect_ended(a, "max_tokens");
  a = ask(1, 8, 3);
  a.sampling.top_p = 0;
  expect_ended(a, "top_p");
}

TEST(DecodeService, TheSameIdTwiceIsRefusedAndTheFirstGoesOn) {
  PairBench bench;
  const Ask a = ask(1, 8, 5);
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
  for (std::uint64_t i = 1; i <= 4; ++i) bench.start(ask(i, 8, 20));
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "batch_full");
  EXPECT_GE(bench.decode_side.port.busy[0].retry_after_ms, 10U);
  bench.run();
  bench.start(ask(5, 8, 20));
  bench.run();
  EXPECT_EQ(bench.generated({1, 5}).size(), 20U);
}

TEST(DecodeService, OneTokensFramePerRouterAndStep) {
  PairOptions options;
  options.prefill_limits = {8, 64};  // all three prompts in one step: they decode together
  PairBench bench(options);
  bench.start(ask(1, 8, 9, 1));
  bench.start(ask(2, 8, 9, 1));
  bench.start(ask(1, 8, 9, 2));
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
  bench.start(ask(1, 8, 9));
  bench.turn();
  bench.decode_service.drain();
  bench.start(ask(2, 8, 9));
  ASSERT_EQ(bench.decode_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.busy[0].reason, "draining");
  bench.run();
  EXPECT_EQ(bench.generated({1, 1}).size(), 9U);
  EXPECT_TRUE(bench.decode_service.idle());
}

TEST(DecodeService, AbandonedRequestsEndWithTheCauseAndFreeTheirBlocks) {
  PairBench bench;
  bench.start(ask(1, 8, 50));
  bench.start(ask(2, 40, 50));
  for (int i = 0; i < 3; ++i) bench.turn();
  bench.decode_service.abandon({ErrorCode::kUnavailable, "shuts down"});
  EXPECT_EQ(bench.decode_side.port.ended.size(), 2U);
  bench.run();
  EXPECT_TRUE(bench.all_free());
}

TEST(DecodeService, AStepThatFailsTeachesNothingOfWhatStepsCost) {
  const Ask bad = ask(2, 8, 6);
  PairOptions options;
  options.model.throw_token = generated_alone(bad).front();  // its first decode step
  PairBench bench(options);
  bench.start(ask(1, 8, 6));
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
  Ask a = ask(1, 8, 200);
  a.deadline_ms = 100;
  bench.start(a);
  for (int i = 0; i < 4; ++i) bench.turn();
  bench.clock.advance(milliseconds(100));
  bench.run();
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(bench.all_free());
}

// The sink by itself: what a hostile or confused sender may try.
class DecodeSink : public ::testing::Test {
 protected:
  DecodeSink() {
    bench.reserve(ask(1, 8, 5));  // 2 prompt blocks, 3 layers
    lease = bench.decode_side.port.leases.back();
    header.lease = lease.ticket;
    header.kv_layout = bench.decode_side.cache.layout().fingerprint();
    header.first_block = lease.blocks[0];
    header.blocks = 1;
  }
  void write(std::uint32_t layer, std::uint32_t block, std::optional<SampledTokenData> first = std::nullopt) {
    KvPushHeader h = header;
    h.layer = layer;
    h.first_block = lease.blocks[block];
    h.first_token = std::move(first);
    const auto place = bench.decode_service.write_begin(h);
    ASSERT_TRUE(place.ok()) << place.error().message;
    EXPECT_EQ(place->size(), bench.decode_side.cache.layout().block_bytes());
    bench.decode_service.write_done(h, place->size());
  }
  void write_all_but_last() {
    for (std::uint32_t i = 0; i < 5; ++i) write(i / 2, i % 2);
  }
  SampledTokenData token(std::uint32_t id, std::uint32_t index) const {
    SampledTokenData out;
    out.token = id;
    out.index = index;
    return out;
  }

  PairBench bench;
  HeardLease lease;
  KvPushHeader header;
};

TEST_F(DecodeSink, ActivatesWhenEverythingIsInWhateverTheOrder) {
  write(2, 1, token(3, 0));
  write(1, 0);
  write(1, 1);
  write(0, 1);
  write(2, 0);
  EXPECT_EQ(bench.decode_service.load().running, 0U);
  write(0, 0);
  EXPECT_EQ(bench.decode_service.load().running, 1U);
}

TEST_F(DecodeSink, WaitsForTheFirstToken) {
  write_all_but_last();
  write(2, 1);
  EXPECT_EQ(bench.decode_service.load().running, 0U);
  write(2, 1, token(3, 0));  // a sender may repeat a block
  EXPECT_EQ(bench.decode_service.load().running, 1U);
}

TEST_F(DecodeSink, AFirstTokenThatCannotBeEndsTheRequest) {
  write_all_but_last();
  write(2, 1, token(5000, 0));
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kCorrupt);
  EXPECT_FALSE(bench.decode_side.port.ended[0].transfer);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, AFirstTokenOutOfPlaceEndsTheRequest) {
  write_all_but_last();
  write(2, 1, token(5, 1));
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, AFirstTokenThatIsTheLastGeneratesNothing) {
  write_all_but_last();
  SampledTokenData last = token(5, 0);
  last.finish = static_cast<std::uint8_t>(FinishReason::kStop);
  write(2, 1, last);
  EXPECT_TRUE(bench.decode_service.idle());
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, WritesWithoutTheRightAreRefused) {
  KvPushHeader wrong = header;
  wrong.lease.key ^= 1;
  EXPECT_FALSE(bench.decode_service.write_begin(wrong).ok());
  wrong = header;
  wrong.first_block = lease.blocks.back() + 1;  // the room for generated tokens is not the sender's
  EXPECT_FALSE(bench.decode_service.write_begin(wrong).ok());
  write_all_but_last();
  write(2, 1, token(5, 0));
  EXPECT_FALSE(bench.decode_service.write_begin(header).ok());  // active: nobody writes from outside
}

// Field report 2: what did not land will not come by itself.
TEST_F(DecodeSink, AWriteThatFailsEndsTheRequest) {
  ASSERT_TRUE(bench.decode_service.write_begin(header).ok());
  bench.decode_service.write_done(header, Error{ErrorCode::kCorrupt, "checksum"});
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.decode_side.port.ended[0].transfer);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, CancelledUnderAWriteTheBlocksWaitForItsEnd) {
  ASSERT_TRUE(bench.decode_service.write_begin(header).ok());
  bench.cancel(bench.decode_service, {1, 1});
  EXPECT_EQ(bench.decode_side.ledger.counts()[static_cast<std::size_t>(BlockState::kQuarantined)], 1U);
  bench.decode_service.write_done(header, std::uint64_t{1});
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
}

}  // namespace
}  // namespace lynx::testing
