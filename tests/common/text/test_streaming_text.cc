// What a stream of tokens becomes on its way to a client: incremental detokenizing and stop strings.
#include <gtest/gtest.h>

#include <random>

#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/utf8.h"
#include "tests/common/text/golden_lines.h"

namespace lynx {
namespace {

TEST(Utf8, ReplacesMaximalSubpartsOnce) {
  EXPECT_EQ(repair_utf8("a\xF0\x9F\x98z"), "a\uFFFDz");          // a cut-off emoji is one
  EXPECT_EQ(repair_utf8("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong: each byte
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xE4\xBD"), "\uFFFD");
}

TEST(Utf8, TakesWholeCharactersAndKeepsTheStartOfOne) {
  std::string held = "ok\xF0\x9F";
  EXPECT_EQ(take_valid_utf8(held), "ok");
  EXPECT_EQ(held, "\xF0\x9F");
  held += "x";
  EXPECT_EQ(take_valid_utf8(held), "\uFFFDx");
  EXPECT_TRUE(held.empty());
}

TEST(Detokenizer, PiecesEqualTheWhole) {
  const Tokenizer tokenizer = Tokenizer::from_file(testing::golden_path("qwen_like.json"));
  std::mt19937 random(3);
  const auto lines = testing::golden_lines();
  for (std::size_t i = 0; i < lines.size(); i += 7) {
    std::vector<TokenId> ids = tokenizer.encode(lines[i]);
    for (int extra = 0; extra < 10; ++extra) ids.push_back(random() % 2000);  // any tokens, so any bytes
    Detokenizer detokenizer(tokenizer);
    std::string text;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.push(id);
      ASSERT_TRUE(is_valid_utf8(piece));
      text += piece;
    }
    text += detokenizer.finish();
    ASSERT_EQ(text, tokenizer.decode(ids)) << "line " << i;
  }
}

std::string run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
                bool* stopped = nullptr) {
  StopMatcher matcher(stops);
  std::string out;
  for (const std::string& piece : pieces) {
    const StopMatcher::Out step = matcher.push(piece);
    out += step.text;
    if (step.stopped) {
      if (stopped != nullptr) *stopped = true;
      return out;
    }
  }
  return out + matcher.finish();
}

TEST(StopMatcher, HoldsBackWhatMightBeAStop) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("abcE").text, "abc");
  EXPECT_EQ(matcher.push("N").text, "");
  EXPECT_EQ(matcher.push("x").text, "ENx");
  EXPECT_EQ(matcher.push("EN").text, "");
  EXPECT_EQ(matcher.finish(), "EN");
}

TEST(StopMatcher, TheFirstStopInTheTextWins) {
  bool stopped = false;
  EXPECT_EQ(run({"world", "lo"}, {"hel", "lo wor", "ld"}, &stopped), "hel");
  EXPECT_TRUE(stopped);
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b", "c"}), "a");
  EXPECT_EQ(run({}, {"all", " of it"}), "all of it");
  EXPECT_EQ(run({""}, {"all"}), "all");
}

// Whatever the cuts, the outcome is that of one search over the whole text.
TEST(StopMatcher, CutsDoNotMatter) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "b", "永", "年", "🙂", "🚀"};
  const auto word = [&](std::size_t most) {
    std::string out;
    for (std::size_t n = 1 + random() % most; n > 0; --n) out += letters[random() % letters.size()];
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops = {word(3), word(4)};
    const std::string text = word(40);
    std::vector<std::string> pieces;  // on character boundaries, as a detokenizer gives them
    for (std::string_view rest = text; !rest.empty();) {
      std::size_t length = 0;
      for (std::size_t n = 1 + random() % 4; n > 0 && length < rest.size(); --n)
        length += utf8_step(rest.substr(length)).length;
      pieces.emplace_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    const std::size_t cut = std::min(text.find(stops[0]), text.find(stops[1]));
    const std::string got = run(stops, pieces);
    ASSERT_EQ(got, text.substr(0, cut)) << text << " / " << stops[0] << " / " << stops[1];
    ASSERT_TRUE(is_valid_utf8(got));
  }
}

}  // namespace
}  // namespace lynx
