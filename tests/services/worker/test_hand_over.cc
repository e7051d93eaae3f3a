// Prefill and decode together: what one process would generate comes out, in every phase a request can be
// left, and both ledgers return to all-free.
#include <gtest/gtest.h>

#include <random>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

FakeModelOptions endless() {
  FakeModelOptions options;
  options.eos = {};
  return options;
}

std::vector<TokenId> prompt(std::uint32_t length, TokenId salt) {
  std::vector<TokenId> out;
  for (TokenId i = 0; i < length; ++i) out.push_back((salt * 31 + i * 7) % 101);
  return out;
}

Ask ask(std::uint64_t request, std::uint32_t length, std::uint32_t max_tokens, LinkId link = 1) {
  Ask out;
  out.wire = {link, request};
  out.tokens = prompt(length, static_cast<TokenId>(request));
  out.sampling.max_tokens = max_tokens;
  return out;
}

TEST(HandOver, TokensEqualThoseOfOneProcess) {
  PairBench bench;
  std::vector<Ask> asks;
  for (std::uint64_t i = 1; i <= 40; ++i)
    asks.push_back(ask(i, 1 + static_cast<std::uint32_t>(i * 13 % 50), 1 + i % 9));
  std::size_t next = 0;
  for (int turn = 0; turn < 2000 && (next < asks.size() || !bench.idle()); ++turn) {
    if (next < asks.size() && turn % 3 == 0) bench.start(asks[next++]);
    bench.turn();
  }
  EXPECT_TRUE(bench.all_free());
  EXPECT_EQ(bench.prefill_side.port.handed_over.size(), asks.size());
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
  for (const Ask& a : asks)
    EXPECT_EQ(bench.generated(a.wire), generated_alone(a)) << "request " << a.wire.request;
}

TEST(HandOver, ASampledStreamResumedElsewhereGoesOnAlike) {
  Ask whole = ask(1, 9, 12);
  whole.sampling.temperature = 1;
  whole.sampling.seed = 5;
  whole.sampling.ignore_eos = true;
  PairBench first;
  first.start(whole);
  first.run();
  const auto all = first.generated(whole.wire);
  ASSERT_EQ(all.size(), 12U);

  Ask rest = whole;
  rest.generated = 5;
  rest.tokens.insert(rest.tokens.end(), all.begin(), all.begin() + 5);
  PairBench second;
  second.start(rest);
  second.run();
  EXPECT_EQ(second.generated(rest.wire), std::vector<TokenId>(all.begin() + 5, all.end()));
  EXPECT_EQ(second.prefill_side.port.first_tokens[0].index, 5U);
  EXPECT_TRUE(second.all_free());
}

// Field report 8.
TEST(HandOver, MaxTokensOneGivesOneAndNGivesN) {
  for (const std::uint32_t n : {1U, 2U, 5U}) {
    PairOptions options;
    options.model = endless();
    PairBench bench(options);
    bench.start(ask(1, 7, n));
    bench.run();
    EXPECT_EQ(bench.generated({1, 1}).size(), n);
    EXPECT_EQ(bench.prefill_side.port.first_tokens[0].finish,
              n == 1 ? proto::FinishReason::LENGTH : proto::FinishReason::NONE);
    EXPECT_TRUE(bench.all_free());
  }
}

// Field report 8.
TEST(HandOver, EndOfSequenceAsTheFirstTokenEndsIt) {
  const TokenId first = generated_alone(ask(1, 7, 1), endless())[0];
  PairOptions options;
  options.model.eos = {first};
  PairBench bench(options);
  bench.start(ask(1, 7, 20));
  bench.run();
  EXPECT_EQ(bench.generated({1, 1}), std::vector<TokenId>{first});
  EXPECT_EQ(bench.prefill_side.port.first_tokens[0].finish, proto::FinishReason::STOP);
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
  EXPECT_TRUE(bench.all_free());
}

// Field report 5: a client that leaves strands nothing, whenever it leaves.
TEST(HandOver, CancelledInAnyPhaseBothLedgersReturnToFree) {
  for (int turns = 0; turns < 12; ++turns) {
    for (const bool decode_first : {true, false}) {
      PairOptions options;
      options.model = endless();
      PairBench bench(options);
      bench.start(ask(1, 40, 30));
      for (int i = 0; i < turns; ++i) bench.turn();
      WorkerService* sides[] = {&bench.decode_service, &bench.prefill_service};
      bench.cancel(*sides[decode_first ? 0 : 1], {1, 1});
      bench.turn();
      bench.cancel(*sides[decode_first ? 1 : 0], {1, 1});
      bench.run(50);
      EXPECT_TRUE(bench.idle()) << turns;
      EXPECT_TRUE(bench.all_free()) << turns;
    }
  }
}

TEST(HandOver, ARouterThatIsLostTakesItsRequestsAlongAndNoOthers) {
  PairOptions options;
  options.model = endless();
  PairBench bench(options);
  bench.start(ask(1, 10, 10, 1));
  bench.start(ask(1, 10, 10, 2));
  bench.start(ask(2, 30, 10, 1));
  bench.turn();
  bench.decode_service.on_link_down(1);
  bench.prefill_service.on_link_down(1);
  bench.run();
  EXPECT_TRUE(bench.all_free());
  EXPECT_EQ(bench.generated({2, 1}).size(), 10U);
  EXPECT_LT(bench.generated({1, 1}).size(), 10U);
  EXPECT_LT(bench.generated({1, 2}).size(), 10U);
}

// Field report 1: the sender dies in the middle; the lease's deadline is what frees the receiver.
TEST(HandOver, APromptThatStopsArrivingExpires) {
  PairOptions options;
  options.decode.lease_timeout = seconds(2);
  PairBench bench(options);
  const Ask a = ask(1, 40, 10);
  bench.start(a);
  bench.prefill_side.turn(bench.prefill_service);
  bench.prefill_transport.progress();  // one chunk of three has arrived; then the prefill worker is gone
  EXPECT_FALSE(bench.decode_side.ledger.all_free());
  bench.clock.advance(seconds(2));
  bench.decode_side.turn(bench.decode_service);
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(bench.decode_side.port.ended[0].transfer);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
  bench.run();  // a prefill worker that wakes up is refused, and frees its own
  EXPECT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.all_free());
}

// Field report 2: a push that fails is told to the router at once, and nothing waits.
TEST(HandOver, APushThatFailsEndsTheRequest) {
  PairBench bench;
  bench.start(ask(1, 40, 10));
  bench.prefill_side.turn(bench.prefill_service);
  bench.decode_transport.reset();  // the decode worker dies
  bench.prefill_transport.progress();
  ASSERT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.ended[0].code, ErrorCode::kUnavailable);
  EXPECT_TRUE(bench.prefill_side.port.ended[0].transfer);
  for (int i = 0; i < 10 && !bench.prefill_service.idle(); ++i) bench.turn();
  EXPECT_TRUE(bench.prefill_side.ledger.all_free());
  EXPECT_EQ(bench.prefill_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.prefill_side.port.handed_over.empty());
}

// Field report 6: the rest of a cancelled prompt is not computed.
TEST(HandOver, ACancelledPromptGivesWayWithinOneChunk) {
  PairOptions options;
  options.model.context = 1000;
  options.prefill_blocks = options.decode_blocks = 300;
  PairBench bench(options);
  bench.start(ask(1, 900, 5));  // 57 chunks
  bench.turn();
  bench.start(ask(2, 4, 5));
  bench.cancel(bench.prefill_service, {1, 1});
  bench.cancel(bench.decode_service, {1, 1});
  bench.turn();
  ASSERT_EQ(bench.prefill_side.port.first_tokens.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.first_tokens[0].wire.request, 2U);
  bench.run();
  EXPECT_TRUE(bench.all_free());
}

TEST(HandOver, EveryBlockMovesOnce) {
  PairBench bench;
  const Ask a = ask(1, 43, 3);  // three chunks of 16 tokens, blocks of 4
  bench.start(a);
  bench.run();
  const PageLayout layout = bench.prefill_side.cache.layout();
  ASSERT_EQ(bench.prefill_side.port.handed_over.size(), 1U);
  EXPECT_EQ(bench.prefill_side.port.handed_over[0].bytes,
            std::uint64_t{layout.layers} * 11 * layout.block_bytes());
}

// A storm: requests come, and are cancelled, expire, lose their router or their decode worker, in any phase.
TEST(HandOver, AStormOfAbortsEndsAllFree) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 rng(seed);
    const auto chance = [&](int percent) { return static_cast<int>(rng() % 100) < percent; };
    PairOptions options;
    options.prefill_blocks = 40;
    options.decode_blocks = 60;
    options.prefill.queue_limit = 6;
    options.decode.max_sequences = 10;
    options.decode.lease_timeout = milliseconds(60);
    options.model.nan_token = 99;
    options.model.throw_token = 98;
    PairBench bench(options);
    std::map<WireId, Ask> asked;
    std::uint64_t next = 1;
    for (int turn = 0; turn < 1500 && (next <= 300 || !bench.idle()); ++turn) {
      if (next <= 300 && chance(60)) {
        Ask a = ask(next, 1 + rng() % 60, 1 + rng() % 12, 1 + rng() % 3);
        a.deadline_ms = 20 + rng() % 400;
        ++next;
        asked[a.wire] = a;
        bench.start(a);
      }
      if (chance(20)) {
        const WireId victim{1 + rng() % 3, 1 + rng() % next};
        if (chance(70)) bench.cancel(bench.decode_service, victim);
        if (chance(70)) bench.cancel(bench.prefill_service, victim);
      }
      if (chance(1)) {
        const LinkId link = 1 + rng() % 3;
        bench.decode_service.on_link_down(link);
        bench.prefill_service.on_link_down(link);
      }
      if (chance(10)) bench.clock.advance(milliseconds(rng() % 30));
      if (chance(80)) {
        bench.turn();
      } else {
        bench.prefill_side.turn(bench.prefill_service);  // the network holds its breath
      }
    }
    bench.clock.advance(seconds(1));
    bench.run(200);
    EXPECT_TRUE(bench.idle()) << seed;
    EXPECT_TRUE(bench.all_free()) << seed << " " << bench.decode_side.ledger.to_json();
    int whole = 0;
    for (const auto& [wire, a] : asked) {
      const auto got = bench.generated(wire);
      const auto expected = generated_alone(a, options.model);
      ASSERT_LE(got.size(), expected.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << "request " << wire.request;
      whole += got == expected ? 1 : 0;
    }
    EXPECT_GT(whole, 30) << seed;
  }
}

}  // namespace
}  // namespace lynx::testing
