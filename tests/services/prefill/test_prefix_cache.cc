#include "services/prefill/prefix_cache.h"

#include <gtest/gtest.h>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

using Blocks = std::vector<BlockId>;
using Tokens = std::vector<TokenId>;

struct Index {
  void add(const Tokens& tokens, const Blocks& blocks, std::uint64_t salt = 0) {
    cache.add({salt, tokens}, blocks, [this](BlockId block) { kept.push_back(block); });
  }
  Blocks find(const Tokens& tokens, std::size_t most, std::uint64_t salt = 0) const {
    return cache.find({salt, tokens}, most);
  }
  PrefixCache cache{2, 0x5EED};
  Blocks kept;
};

TEST(PrefixCache, FindsTheLongestBeginningOfFullBlocks) {
  Index index;
  index.add({1, 2, 3, 4, 5}, {10, 11, 12});
  EXPECT_EQ(index.kept, (Blocks{10, 11})) << "the last block is not full";
  EXPECT_EQ(index.find({1, 2, 3, 4, 9, 9}, 9), (Blocks{10, 11}));
  EXPECT_EQ(index.find({1, 2, 3, 4}, 1), (Blocks{10}));
  EXPECT_EQ(index.find({1, 2, 3, 9}, 9), (Blocks{10}));
  EXPECT_EQ(index.find({3, 4, 1, 2}, 9), Blocks{}) << "the same tokens elsewhere are other KV";
  EXPECT_EQ(index.find({1}, 9), Blocks{});
}

TEST(PrefixCache, TheFirstToComputeABlockIsTheOneThatIsFound) {
  Index index;
  index.add({1, 2, 3, 4}, {10, 11});
  index.add({1, 2, 5, 6}, {20, 21});
  EXPECT_EQ(index.kept, (Blocks{10, 11, 21}));
  EXPECT_EQ(index.find({1, 2, 5, 6}, 9), (Blocks{10, 21}));
}

TEST(PrefixCache, WhatHungOnAForgottenBlockIsNotFoundAgain) {
  Index index;
  index.add({1, 2, 3, 4}, {10, 11});
  index.cache.forget(10);
  index.cache.forget(10);
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9), Blocks{});
  index.add({1, 2}, {30});
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9), (Blocks{30}));
  index.cache.forget(11);
  index.cache.forget(30);
  EXPECT_EQ(index.cache.size(), 0U);
}

TEST(PrefixCache, PromptsOfTwoSaltsNeverMeet) {
  Index index;
  index.add({1, 2, 3, 4}, {10, 11}, 1);
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9), Blocks{});
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9, 2), Blocks{});
  index.add({1, 2, 3, 4}, {20, 21}, 2);
  EXPECT_EQ(index.kept, (Blocks{10, 11, 20, 21})) << "each has blocks of its own";
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9, 1), (Blocks{10, 11}));
  EXPECT_EQ(index.find({1, 2, 3, 4}, 9, 2), (Blocks{20, 21}));
}

Ask ask(std::uint64_t request, std::uint32_t shared, std::uint32_t own) {
  Ask out;
  out.wire = {1, request};
  out.tokens.clear();
  for (std::uint32_t i = 0; i < shared; ++i) out.tokens.push_back(i * 7 % 50);
  for (std::uint32_t i = 0; i < own; ++i)
    out.tokens.push_back(static_cast<TokenId>((request * 11 + i * 3) % 50));
  return out;
}

bool counted(const PairBench& bench, const std::string& outcome, int tokens) {
  const std::string line =
      "lynx_prefix_cache_tokens_total{outcome=\"" + outcome + "\"} " + std::to_string(tokens) + "\n";
  return bench.prefill_side.registry.serialize().find(line) != std::string::npos;
}

TEST(PrefixReuse, APromptThatBeginsAlikeComputesOnlyItsRest) {
  PairBench bench;  // blocks of 4 tokens, chunks of 16
  bench.start(ask(1, 40, 5));
  bench.run();
  const Ask second = ask(2, 40, 7);
  bench.start(second);
  bench.turn();
  EXPECT_EQ(bench.prefill_side.port.first_tokens.size(), 2U) << "in one chunk, where the whole took three";
  bench.run();
  EXPECT_EQ(bench.generated(second.wire), generated_alone(second));
  EXPECT_TRUE(counted(bench, "hit", 40));
  EXPECT_TRUE(counted(bench, "miss", 45 + 7));
  const PageLayout layout = bench.prefill_side.cache.layout();
  EXPECT_EQ(bench.prefill_side.port.handed_over[1].bytes,
            std::uint64_t{layout.layers} * 12 * layout.block_bytes())
      << "the decode worker gets every block";
  EXPECT_TRUE(bench.all_free());
}

// What another tenant has asked must not show in the time of an answer.
TEST(PrefixReuse, APromptOfAnotherSaltIsComputedWhole) {
  PairBench bench;
  std::uint64_t request = 0;
  const auto hits_after = [&](std::uint64_t salt) {
    Ask prompt = ask(1, 40, 5);
    prompt.wire.request = ++request;
    prompt.cache_salt = salt;
    bench.start(prompt);
    bench.run();
    EXPECT_EQ(bench.generated(prompt.wire), generated_alone(prompt));
    for (const int tokens : {0, 44, 88})
      if (counted(bench, "hit", tokens)) return tokens;
    return -1;
  };
  EXPECT_EQ(hits_after(5), 0);
  EXPECT_EQ(hits_after(6), 0);
  EXPECT_EQ(hits_after(0), 0);
  EXPECT_EQ(hits_after(5), 44);
  EXPECT_EQ(hits_after(6), 88);
}

TEST(PrefixReuse, TheSamePromptComputesItsLastTokenAgain) {
  PairBench bench;
  for (const std::uint64_t request : {1, 2}) {
    Ask same = ask(1, 16, 0);
    same.wire.request = request;
    bench.start(same);
    bench.run();
    EXPECT_EQ(bench.generated(same.wire), generated_alone(same));
  }
  EXPECT_TRUE(counted(bench, "hit", 12)) << "three blocks of four";
}

TEST(PrefixReuse, APromptThatWaitsFindsWhatIsComputedMeanwhile) {
  PairOptions options;
  options.prefill_blocks = 12;
  PairBench bench(options);
  bench.start(ask(1, 40, 5));  // takes them all
  const Ask second = ask(2, 40, 7);
  bench.start(second);
  EXPECT_EQ(bench.prefill_service.load().waiting, 1U);
  bench.run();
  EXPECT_EQ(bench.generated(second.wire), generated_alone(second));
  EXPECT_TRUE(counted(bench, "hit", 40));
  EXPECT_TRUE(bench.all_free());
}

TEST(PrefixReuse, TwoThatRunTogetherShareAndEitherMayLeave) {
  for (const bool first_leaves : {true, false}) {
    PairBench bench;
    bench.start(ask(1, 32, 4));
    bench.run();
    const Ask a = ask(2, 32, 30), b = ask(3, 32, 30);
    bench.start(a);
    bench.start(b);
    bench.prefill_side.turn(bench.prefill_service);
    const Ask& gone = first_leaves ? a : b;
    const Ask& stays = first_leaves ? b : a;
    bench.cancel(bench.prefill_service, gone.wire);
    bench.cancel(bench.decode_service, gone.wire);
    bench.run();
    EXPECT_EQ(bench.generated(stays.wire), generated_alone(stays));
    EXPECT_TRUE(bench.all_free());
  }
}

TEST(PrefixReuse, NothingIsKeptOfAPromptThatWasNotComputedToItsEnd) {
  PairBench bench;
  bench.start(ask(1, 40, 0));
  bench.turn();  // one chunk of three
  bench.cancel(bench.prefill_service, {1, 1});
  bench.cancel(bench.decode_service, {1, 1});
  bench.run();
  bench.start(ask(2, 40, 4));
  bench.run();
  EXPECT_TRUE(counted(bench, "hit", 0));
}

TEST(PrefixReuse, SwitchedOffNothingIsReused) {
  PairOptions options;
  options.prefill.prefix_cache = false;
  PairBench bench(options);
  for (const std::uint64_t request : {1, 2}) {
    bench.start(ask(request, 40, 4));
    bench.run();
  }
  EXPECT_TRUE(counted(bench, "hit", 0));
}

// A small pool and few beginnings: blocks are shared, overwritten and computed anew all the time.
TEST(PrefixReuse, UnderPressureEveryAnswerIsThatOfOneProcess) {
  PairOptions options;
  options.prefill_blocks = 30;
  options.decode_blocks = 200;
  PairBench bench(options);
  std::vector<Ask> asks;
  for (std::uint32_t i = 1; i <= 150; ++i) {
    Ask a = ask(i, 4 + i * 13 % 50, 1 + i % 9);
    a.tokens[0] = i % 3;  // three families
    asks.push_back(a);
  }
  std::size_t next = 0;
  for (int turn = 0; turn < 5000 && (next < asks.size() || !bench.idle()); ++turn) {
    if (next < asks.size() && bench.prefill_service.load().waiting < 3) {
      bench.start(asks[next]);
      if (next % 7 == 3) {
        bench.cancel(bench.prefill_service, asks[next].wire);
        bench.cancel(bench.decode_service, asks[next].wire);
        asks[next].wire.request = 0;
      }
      ++next;
    }
    bench.turn();
  }
  int whole = 0;
  for (const Ask& a : asks) {
    if (a.wire.request == 0) continue;
    const auto got = bench.generated(a.wire);
    if (got.empty()) continue;  // it was Busy
    EXPECT_EQ(got, generated_alone(a)) << a.wire.request;
    ++whole;
  }
  EXPECT_GT(whole, 60);
  EXPECT_FALSE(counted(bench, "hit", 0));
  EXPECT_TRUE(bench.all_free()) << bench.prefill_side.ledger.to_json();
}

}  // namespace
}  // namespace lynx::testing
