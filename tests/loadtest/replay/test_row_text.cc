#include <gtest/gtest.h>

#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using Fields = std::vector<std::string>;

TEST(RowText, CsvKeepsQuotedCommasAndQuotes) {
  EXPECT_EQ(*split_csv("a,b,,d"), (Fields{"a", "b", "", "d"}));
  EXPECT_EQ(*split_csv(R"("a,b","say ""hi""",c)"), (Fields{"a,b", "say \"hi\"", "c"}));
  EXPECT_EQ(*split_csv(""), Fields{""});
  EXPECT_FALSE(split_csv("a,\"b").ok());
}

TEST(RowText, TokensAreWholeAndPositive) {
  EXPECT_EQ(*parse_tokens("4808", "x"), 4808u);
  EXPECT_EQ(*parse_tokens(" 12.0 ", "x"), 12u);
  for (const char* bad : {"", "0", "-3", "1.5", "abc", "12x", "1e300", "nan", "inf", "99999999999"})
    EXPECT_FALSE(parse_tokens(bad, "x").ok()) << bad;
  EXPECT_EQ(parse_tokens("x", "ContextTokens").error().message,
            "ContextTokens is not a whole number of at least 1");
}

TEST(RowText, TimestampsOfEveryAzureForm) {
  const auto base = *parse_timestamp("2023-11-16 18:17:03");
  EXPECT_EQ(*parse_timestamp("1970-01-01 00:00:01"), 1s);
  EXPECT_EQ(*parse_timestamp("2023-11-16 18:17:03.9799600") - base, 979960us) << "100 ns ticks";
  EXPECT_EQ(*parse_timestamp("2023-11-16 18:17:03.0000001") - base, 100ns);
  EXPECT_EQ(*parse_timestamp("2023-11-16T18:17:03Z"), base);
  EXPECT_EQ(*parse_timestamp("2023-11-16 20:17:03+02:00"), base);
  EXPECT_EQ(*parse_timestamp("2023-11-16 10:47:03.5-07:30") - base, 500ms);
  EXPECT_EQ(*parse_timestamp("2024-02-29 00:00:00") - *parse_timestamp("2024-02-28 00:00:00"), 24h);
}

TEST(RowText, WrongTimestampsAreRefused) {
  for (const char* bad : {"", "2023-11-16", "2023-11-16 18:17", "2023-13-16 18:17:03", "2023-02-30 18:17:03",
                          "2023-11-16 24:17:03", "2023-11-16 18:17:03.", "2023-11-16 18:17:03.1234567890",
                          "2023-11-16 18:17:03+0200", "2023-11-16 18:17:03 x", "0023-11-16 18:17:03", "12"})
    EXPECT_FALSE(parse_timestamp(bad).ok()) << bad;
}

}  // namespace
}  // namespace lynx
