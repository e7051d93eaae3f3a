#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>

#include "loadtest/replay/passages.h"
#include "loadtest/replay/prompt_writer.h"

namespace lynx {
namespace {

// Like a byte-level BPE: the blank belongs to the word after it; long words are several tokens, and so is
// punctuation.
std::size_t count_tokens(std::string_view text) {
  std::size_t tokens = 0, run = 0;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) {
      ++tokens;
      run = 0;
      continue;
    }
    if (c == ' ' || run == 6) run = 0;
    tokens += run++ == 0 ? 1 : 0;
  }
  return tokens;
}

PlannedRequest request(std::uint32_t tokens, std::uint64_t seed, std::vector<std::uint64_t> ids = {}) {
  PlannedRequest r;
  r.input_tokens = tokens;
  r.seed = seed;
  r.hash_ids = std::move(ids);
  return r;
}

TEST(PromptWriter, PromptsHaveExactlyTheAskedTokens) {
  const PromptWriter writer(default_passages(), count_tokens);
  for (std::uint32_t tokens = 1; tokens < 2048; tokens += 13)
    EXPECT_EQ(count_tokens(writer.write(request(tokens, tokens), 0)), tokens);
  EXPECT_EQ(count_tokens(writer.write(request(1000, 1, {4, 5, 6}), 300)), 1000u);
}

TEST(PromptWriter, TextIsRealAndDiffersBySeed) {
  const PromptWriter writer(default_passages(), count_tokens);
  const auto a = writer.write(request(300, 1), 0);
  EXPECT_NE(a, writer.write(request(300, 2), 0));
  EXPECT_EQ(a, writer.write(request(300, 1), 0));
  EXPECT_NE(a.find(". "), std::string::npos) << "whole sentences: " << a;
}

TEST(PromptWriter, TheSameHashIdIsTheSameBlock) {
  const PromptWriter writer(default_passages(), count_tokens);
  const auto a = writer.write(request(250, 1, {7, 8, 9}), 100);
  const auto b = writer.write(request(300, 2, {7, 8, 10}), 100);
  const auto shared = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  EXPECT_EQ(count_tokens(a.substr(0, a.rfind(' ', shared))) / 100, 2u)
      << "two blocks of 100 tokens, then they part";
  const auto unique = writer.write(request(250, 3, {1, 8, 9}), 100);
  EXPECT_NE(a.substr(0, 40), unique.substr(0, 40));
}

TEST(PromptWriter, MoreTokensThanHashIdsGoOnWithOwnText) {
  const PromptWriter writer(default_passages(), count_tokens);
  const auto a = writer.write(request(200, 1, {7}), 100), b = writer.write(request(200, 2, {7}), 100);
  EXPECT_NE(a, b);
  EXPECT_EQ(count_tokens(a), 200u);
}

TEST(PromptWriter, PromptsOfATopicBeginAlikeAndGoOnApart) {
  const Topics topics{.names = {"sea", "code"},
                      .prompts = {{"the tide is out", "a boat comes in", "salt on the quay"},
                                  {"def main", "pass x", "from os"}}};
  const PromptWriter writer(topics, 8, count_tokens);
  std::map<std::string, std::set<std::string>> by_beginning;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::string prompt = writer.write(request(30, seed), 0);
    EXPECT_EQ(count_tokens(prompt), 30u);
    EXPECT_EQ(prompt, writer.write(request(30, seed), 0));
    std::size_t end = 0;
    for (int word = 0; word < 9; ++word) end = prompt.find(' ', end + (word > 0 ? 1 : 0));
    by_beginning[prompt.substr(0, end)].insert(prompt.substr(end));
  }
  ASSERT_EQ(by_beginning.size(), 2u);
  for (const auto& [beginning, rests] : by_beginning) EXPECT_GT(rests.size(), 10u) << beginning;
  EXPECT_EQ(count_tokens(writer.write(request(5, 1), 0)), 5u) << "shorter than what is shared";
  try {
    const PromptWriter none({.names = {"empty"}, .prompts = {{" "}}}, 8, count_tokens);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("topic 'empty' needs a sentence"), std::string::npos) << e.what();
  }
}

TEST(PromptWriter, WhoSharesABlockIsOfOneTopic) {
  const Topics topics{.names = {"sea", "code"},
                      .prompts = {{"the tide is out", "a boat comes in"}, {"def main", "pass x", "from os"}}};
  const PromptWriter writer(topics, 8, count_tokens);
  std::set<std::string> of_seven, of_any;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    of_seven.insert(writer.write(request(58, seed, {7, 8}), 25));  // 8 of the topic, and both blocks
    of_any.insert(writer.write(request(33, seed, {seed}), 25).substr(0, 10));
  }
  EXPECT_EQ(of_seven.size(), 1u);
  EXPECT_EQ(of_any.size(), 2u) << "other blocks are of other topics";
}

TEST(PromptWriter, ATokenizerOfBytesWorksToo) {
  const PromptWriter writer(default_passages(), [](std::string_view text) { return text.size(); });
  EXPECT_EQ(writer.write(request(777, 1), 0).size(), 777u);
}

TEST(PromptWriter, TextWithoutAUsableWordIsRefused) {
  EXPECT_THROW(PromptWriter("", count_tokens), std::runtime_error);
  EXPECT_THROW(PromptWriter("word.", [](std::string_view) { return 2; }), std::runtime_error);
}

}  // namespace
}  // namespace lynx
