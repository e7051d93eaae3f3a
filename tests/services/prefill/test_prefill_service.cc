#include <gtest/gtest.h>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

// Reserves without turning, so that nothing has been computed yet.
HeardLease leased(PairBench& bench, const Ask& a) {
  bench.reserve(a);
  return bench.decode_side.port.leases.back();
}

TEST(PrefillService, PromptsWaitForBlocksThenAreBusy) {
  PairOptions options;
  options.prefill_blocks = 4;  // one prompt of 16 tokens
  options.prefill.queue_limit = 2;
  PairBench bench(options);
  for (std::uint64_t i = 1; i <= 4; ++i) bench.start(ask(i, 16));
  ASSERT_EQ(bench.prefill_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.busy[0].wire.request, 4U);
  EXPECT_EQ(bench.prefill_side.port.busy[0].reason, "queue_full");
  EXPECT_GE(bench.prefill_side.port.busy[0].retry_after_ms, 10U);
  EXPECT_EQ(bench.prefill_service.load().waiting, 2U);
  bench.cancel(bench.decode_service, {1, 4});
  bench.run();
  EXPECT_EQ(bench.prefill_side.port.handed_over.size(), 3U);
  EXPECT_TRUE(bench.all_free());
}

TEST(PrefillService, TheQueueIsOrderedByDeadline) {
  PairOptions options;
  options.prefill_blocks = 4;
  PairBench bench(options);
  bench.start(ask(1, 16));
  Ask late = ask(2, 16);
  late.deadline_ms = 9'000;
  Ask early = ask(3, 16);
  early.deadline_ms = 2'000;
  bench.start(late);
  bench.start(early);
  bench.run();
  std::vector<std::uint64_t> order;
  for (const HeardToken& token : bench.prefill_side.port.first_tokens) order.push_back(token.wire.request);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 3, 2}));
}

TEST(PrefillService, ALongPromptIsPassedByForHalfOfItsTimeOnly) {
  PairOptions options;
  options.prefill_blocks = 8;
  PairBench bench(options);
  bench.start(ask(1, 16));  // leaves four blocks
  Ask large = ask(2, 24);
  large.deadline_ms = 4'000;
  bench.start(large);
  bench.start(ask(3, 8));
  EXPECT_EQ(bench.prefill_service.load().waiting, 1U) << "there is room for the short one";
  bench.clock.advance(milliseconds(2'000));
  bench.start(ask(4, 8));
  EXPECT_EQ(bench.prefill_service.load().waiting, 2U) << "what is free is kept for the long one";
  bench.run();
  ASSERT_EQ(bench.prefill_side.port.first_tokens.size(), 4U);
  EXPECT_EQ(bench.prefill_side.port.first_tokens.back().wire.request, 4U);
  EXPECT_TRUE(bench.all_free());
}

TEST(PrefillService, WhatWaitsTooLongEnds) {
  PairOptions options;
  options.prefill_blocks = 4;
  PairBench bench(options);
  bench.start(ask(1, 16));
  Ask impatient = ask(2, 16);
  impatient.deadline_ms = 50;
  bench.start(impatient);
  bench.clock.advance(milliseconds(50));
  bench.prefill_service.on_tick();
  ASSERT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.ended[0].wire.request, 2U);
  EXPECT_EQ(bench.prefill_side.port.ended[0].code, ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(bench.prefill_side.port.ended[0].transfer);
  bench.run();
  EXPECT_TRUE(bench.all_free());
}

TEST(PrefillService, RefusesWhatCannotWork) {
  PairBench bench;
  const auto expect_ended = [&](const Ask& a, const HeardLease& lease, ErrorCode code) {
    bench.prefill(a, lease);
    ASSERT_FALSE(bench.prefill_side.port.ended.empty());
    EXPECT_EQ(bench.prefill_side.port.ended.back().code, code)
        << bench.prefill_side.port.ended.back().message;
    EXPECT_FALSE(bench.prefill_side.port.ended.back().transfer);
    EXPECT_TRUE(bench.prefill_service.idle());
  };
  Ask a = ask(1, 16);
  HeardLease lease = leased(bench, a);
  HeardLease narrow = lease;
  narrow.blocks.pop_back();
  expect_ended(a, narrow, ErrorCode::kIncompatible);
  Ask outside = a;
  outside.tokens[3] = 5000;
  expect_ended(outside, lease, ErrorCode::kInvalidArgument);
  Ask nothing = a;
  nothing.tokens.clear();
  expect_ended(nothing, lease, ErrorCode::kInvalidArgument);
  Ask nan = a;
  nan.sampling.temperature = -1;
  expect_ended(nan, lease, ErrorCode::kInvalidArgument);
}

TEST(PrefillService, ALeaseThatIsNotOneEndsTheRequest) {
  PairBench bench;
  const Ask a = ask(1, 16);
  HeardLease forged = leased(bench, a);
  ++forged.ticket.key;
  bench.prefill(a, forged);
  for (int i = 0; i < 10 && !bench.prefill_service.idle(); ++i) bench.turn();
  ASSERT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.ended[0].code, ErrorCode::kPermission);
  EXPECT_TRUE(bench.prefill_side.ledger.all_free());
}

// Field report 2: one push cannot be posted, or fails, while both workers live. The decode worker must not
// wait for the rest: the router hears of it at once and takes its lease back.
TEST(PrefillService, APushThatFailsIsToldAndNothingMoreIsPushed) {
  PairBench bench;
  bench.start(ask(1, 40));
  bench.prefill_side.turn(bench.prefill_service);
  bench.prefill_transport.forget({"decode-0", PairBench::kIncarnation, ""});  // what is posted fails
  bench.prefill_transport.progress();
  ASSERT_EQ(bench.prefill_side.port.ended.size(), 1U) << "told at once, and once";
  EXPECT_EQ(bench.prefill_side.port.ended[0].wire.request, 1U);
  EXPECT_EQ(bench.prefill_side.port.ended[0].code, ErrorCode::kUnavailable);
  EXPECT_TRUE(bench.prefill_side.port.ended[0].transfer);
  EXPECT_FALSE(bench.decode_side.ledger.all_free());
  bench.cancel(bench.decode_service, {1, 1});  // what the router does with it
  EXPECT_TRUE(bench.decode_side.ledger.all_free()) << "freed long before the lease ends";
  bench.run();
  EXPECT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.prefill_side.port.handed_over.empty());
  EXPECT_TRUE(bench.decode_side.port.tokens.empty());
  EXPECT_EQ(bench.prefill_side.registry.serialize().find("lynx_kv_transfer_bytes_total"), std::string::npos);
  EXPECT_TRUE(bench.all_free());
}

// Field report 3.
// What is pushed to a worker that its router has lost is given up, without waiting for deadlines.
TEST(PrefillService, PushesToALifeThatIsGoneAreGivenUp) {
  PairBench bench;
  bench.start(ask(1, 16));
  bench.prefill_side.turn(bench.prefill_service);  // posted, not delivered
  bench.cancel(bench.prefill_service, {1, 1});
  bench.gone(1, PairBench::kIncarnation);
  bench.prefill_side.turn(bench.prefill_service);
  bench.prefill_transport.progress();
  EXPECT_TRUE(bench.prefill_side.ledger.all_free());
  EXPECT_EQ(bench.prefill_side.registry.serialize().find("lynx_kv_transfer_bytes_total"), std::string::npos)
      << "nothing was delivered";
}

// Field report 3.
// A life is one incarnation exactly: an earlier one that ended, or a later one, is another.
TEST(PrefillService, AnotherLifeThatIsGoneDisturbsNobody) {
  for (const std::uint64_t other : {PairBench::kIncarnation - 1, PairBench::kIncarnation + 1}) {
    PairBench bench;
    bench.start(ask(1, 16));
    bench.prefill_side.turn(bench.prefill_service);
    bench.gone(1, other);
    bench.run();
    EXPECT_EQ(bench.prefill_side.port.handed_over.size(), 1U) << other;
    EXPECT_TRUE(bench.prefill_side.port.ended.empty());
    EXPECT_TRUE(bench.all_free());
  }
}

// One router may lose a worker that another still reaches.
TEST(PrefillService, OneRoutersWordDoesNotEndThePushesOfAnother) {
  PairBench bench;
  bench.start(ask(1, 16));
  Ask others = ask(2, 16);
  others.wire.link = 2;
  bench.start(others);
  bench.prefill_side.turn(bench.prefill_service);
  bench.cancel(bench.prefill_service, {1, 1});
  bench.gone(1, PairBench::kIncarnation);
  bench.cancel(bench.decode_service, {1, 1});
  bench.run();
  EXPECT_EQ(bench.generated(others.wire), generated_alone(others));
  bench.gone(2, PairBench::kIncarnation);  // nothing is under way: nothing to do
  EXPECT_TRUE(bench.all_free());
}

// Field report 18: a draining worker takes nothing new and serves what is under way to the last push.
TEST(PrefillService, DrainingFinishesPushesUnderWay) {
  PairBench bench;
  bench.start(ask(1, 40));
  bench.prefill_side.turn(bench.prefill_service);
  bench.prefill_service.drain();
  EXPECT_FALSE(bench.prefill_service.idle());
  EXPECT_TRUE(bench.prefill_service.load().draining);
  bench.start(ask(2, 8));
  ASSERT_EQ(bench.prefill_side.port.busy.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.busy[0].reason, "draining");
  bench.cancel(bench.decode_service, {1, 2});
  bench.run();
  EXPECT_EQ(bench.prefill_side.port.handed_over.size(), 1U);
  EXPECT_TRUE(bench.prefill_service.idle());
}

TEST(PrefillService, AbandonedRequestsEndAndWaitForTheirPushes) {
  PairBench bench;
  bench.start(ask(1, 40));
  bench.prefill_side.turn(bench.prefill_service);  // pushes are posted, not delivered
  bench.prefill_service.abandon({ErrorCode::kUnavailable, "shuts down"});
  ASSERT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_FALSE(bench.prefill_side.ledger.all_free());
  bench.prefill_side.turn(bench.prefill_service);
  EXPECT_FALSE(bench.prefill_side.ledger.all_free());  // the engine let go, the pushes have not
  bench.prefill_transport.progress();
  EXPECT_TRUE(bench.prefill_side.ledger.all_free());
  EXPECT_TRUE(bench.prefill_service.idle());
}

TEST(PrefillService, TimesAreThoseOfTheClock) {
  PairOptions options;
  options.prefill_blocks = 4;
  PairBench bench(options);
  bench.start(ask(1, 16));
  bench.start(ask(2, 16));
  bench.clock.advance(milliseconds(30));
  bench.run();
  const std::string text = bench.prefill_side.registry.serialize();
  EXPECT_NE(text.find("lynx_prefill_queue_seconds_sum 0.06"), std::string::npos) << text;
  EXPECT_NE(text.find("lynx_prefill_compute_seconds_sum 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lynx_kv_push_overlap_ratio_count 2"), std::string::npos);
  EXPECT_NE(text.find("lynx_kv_transfer_bytes_total{transport=\"loopback\"}"), std::string::npos);
}

TEST(PrefillService, TheExpertsOfAPromptAreCountedWhereTheRouterAsks) {
  PairOptions options;
  options.prefill.prefix_cache = false;
  PairBench bench(options);
  Ask counted = ask(1, 40);  // several chunks
  for (std::uint32_t i = 0; i < 10; ++i) counted.tokens[i] = 3;
  for (std::uint32_t i = 10; i < 40; ++i) counted.tokens[i] = 8;
  counted.count_experts = true;
  bench.start(ask(2, 12));  // in its company, and not counted
  bench.start(counted);
  bench.run();
  ASSERT_EQ(bench.prefill_side.port.handed_over.size(), 2U);
  for (const HeardHandOver& done : bench.prefill_side.port.handed_over) {
    if (done.wire.request == 2) {
      EXPECT_TRUE(done.expert_shares.empty());
      continue;
    }
    std::vector<std::uint8_t> expected(3 * 16, 0);  // FakeModel: layers, experts
    for (std::size_t layer = 0; layer < 3; ++layer) {
      expected[layer * 16 + 3] += 64;  // 10 of 40 tokens
      expected[layer * 16 + 3 + layer + 1] += 64;
      expected[layer * 16 + 8] += 191;
      expected[layer * 16 + 8 + layer + 1] += 191;
    }
    EXPECT_EQ(done.expert_shares, expected);
  }
}

}  // namespace
}  // namespace lynx::testing
