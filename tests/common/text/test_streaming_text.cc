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

// Field report 9.
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

TEST(StopMatcher, TheStopThatIsCompleteFirstWins) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}), "xa");
  EXPECT_EQ(run({"abcd", "bc"}, {"xabc", "d"}), "xa");
  EXPECT_EQ(run({"bc", "abc"}, {"xabc"}), "x");  // both end here: the longest
  bool stopped = false;
  EXPECT_EQ(run({"world", "lo"}, {"hel", "lo wor", "ld"}, &stopped), "hel");
  EXPECT_TRUE(stopped);
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b", "c"}), "a");
  EXPECT_EQ(run({}, {"all", " of it"}), "all of it");
  EXPECT_EQ(run({""}, {"all"}), "all");
}

// What the header promises, in a form that is plainly right and slow.
std::size_t cut_of(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t first_end = std::string::npos, cut = std::string::npos;
  for (const std::string& stop : stops) {
    const std::size_t begin = text.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && begin < cut)) cut = begin;
    first_end = std::min(first_end, end);
  }
  return cut;
}

// Whatever the cuts, the outcome is that of one search over the whole text.
// Field report 9.
TEST(StopMatcher, CutsDoNotMatter) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "永", "🙂"};  // few, so that stop strings overlap
  const auto word = [&](std::size_t most) {
    std::string out;
    for (std::size_t n = 1 + random() % most; n > 0; --n) out += letters[random() % letters.size()];
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops = {word(2), word(4), word(6)};
    const std::string text = word(40);
    std::vector<std::string> pieces;  // on character boundaries, as a detokenizer gives them
    for (std::string_view rest = text; !rest.empty();) {
      std::size_t length = 0;
      for (std::size_t n = 1 + random() % 4; n > 0 && length < rest.size(); --n)
        length += utf8_step(rest.substr(length)).length;
      pieces.emplace_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    const std::string got = run(stops, pieces);
    ASSERT_EQ(got, text.substr(0, cut_of(text, stops))) << text << " / " << stops[0] << " / " << stops[1];
    ASSERT_TRUE(is_valid_utf8(got));
  }
}

// A stop string that almost matches all the time: 64 MB of comparisons if every piece searched from the
// start.
TEST(StopMatcher, ALongStopStringCostsNoMoreThanAShortOne) {
  StopMatcher matcher({std::string(8000, 'a') + "b", std::string(8000, 'a') + "c"});
  std::string out;
  for (int i = 0; i < 300'000; ++i) out += matcher.push("a").text;
  EXPECT_EQ(out.size(), 292'000U);
  EXPECT_EQ(matcher.push("d").text.size(), 8001U);
}

}  // namespace
}  // namespace lynx
