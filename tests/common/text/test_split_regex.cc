// Patterns of tokenizer.json cut as the reference's engine cuts; the expectations are Oniguruma's.
#include <gtest/gtest.h>

#include "common/text/oniguruma_pattern.h"
#include "common/text/split_regex.h"

namespace lynx {
namespace {

constexpr const char* kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> pieces(const std::string& pattern, std::string_view text) {
  std::vector<std::string> out;
  SplitRegex(pattern).split(text, [&](std::string_view piece, bool) { out.emplace_back(piece); });
  return out;
}

using Pieces = std::vector<std::string>;

TEST(SplitRegex, CutsAsOnigurumaDoes) {
  EXPECT_EQ(pieces(kQwen, "it's  12 é!\n"), Pieces({"it", "'s", " ", " ", "1", "2", " é", "!\n"}));
  EXPECT_EQ(pieces(R"(\s+)", "a\u180E b"),
            Pieces({"a\u180E", " ", "b"}));  // no white space since Unicode 6.3
  EXPECT_EQ(pieces(R"([^\S\n]+)", "a\u180E b"), Pieces({"a\u180E", " ", "b"}));
  EXPECT_EQ(pieces(R"(\p{Han}+)", "永、和"), Pieces({"永", "、", "和"}));  // 、 is used by several scripts
  EXPECT_EQ(pieces("^a|b$", "a\nab\na"), Pieces({"a", "\n", "a", "b", "\n", "a"}));
  EXPECT_EQ(pieces("x*", "axb"), Pieces({"a", "x", "b"}));  // empty matches cut
  EXPECT_EQ(pieces("(?=b)", "aabb"), Pieces({"aa", "b", "b"}));
  EXPECT_EQ(pieces(R"([]\[a]+)", "[a]b"), Pieces({"[a]", "b"}));
  EXPECT_EQ(pieces("a{2}", "aaab"), Pieces({"aa", "ab"}));
  EXPECT_EQ(pieces("a{x", "a{x"), Pieces({"a{x"}));
  EXPECT_EQ(pieces(R"(\x{61}\p{^N})", "1ab"), Pieces({"1", "ab"}));
}

TEST(SplitRegex, RefusesWhatMeansSomethingElseInOniguruma) {
  for (const char* pattern :
       {R"(\w)",        R"(\b)",   R"(\h)",       R"(\v)",   R"(\R)",   R"(\X)",   R"(a\Kb)",
        R"(\1)",        R"(\x61)", "[[:alpha:]]", "[a&&b]",  "[a[b]]",  "a{1,3}+", "a{2}?",
        "a{,2}",        "(?m)a",   "(?s:a)",      "(?<n>a)", "(*UTF)a", R"(\pL)",  R"(\p{Script=Han})",
        R"(\p{Alpha})", "\\",      "(",           "[a"})
    EXPECT_THROW(SplitRegex{pattern}, std::runtime_error) << pattern;
}

TEST(SplitRegex, ALiteralIsItself) {
  const std::string text = R"(a.b\E[c]{2}^$)";
  EXPECT_EQ(pieces(literal_pattern(text), "x" + text + "x"), Pieces({"x", text, "x"}));
}

// A pattern that backtracks without end gives up and leaves the rest in one piece.
TEST(SplitRegex, ACostlyMatchIsGivenUp) {
  EXPECT_EQ(pieces("(?:a+)+b", std::string(200, 'a') + "c"), Pieces({std::string(200, 'a') + "c"}));
}

// A group's repetition keeps a state for each round: more than the stack of the compiled matcher holds.
TEST(SplitRegex, LongRunsOfGroupsMatch) {
  const std::string run(200'000, 'a');
  EXPECT_EQ(pieces("(?:a|b)+", run + "c"), Pieces({run, "c"}));
}

TEST(SplitRegex, WhiteSpaceRunsAreLinear) {
  const std::string spaces(400'000, ' ');
  EXPECT_EQ(pieces(kQwen, spaces + "a"), Pieces({spaces.substr(1), " a"}));
}

}  // namespace
}  // namespace lynx
