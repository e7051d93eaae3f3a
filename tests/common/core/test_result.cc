#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "common/core/check.h"
#include "common/core/result.h"
#include "common/core/version.h"

namespace lynx {
namespace {

Result<std::unique_ptr<int>> half(int n) {
  if (n % 2 != 0) return {ErrorCode::kInvalidArgument, std::to_string(n) + " is odd"};
  return std::make_unique<int>(n / 2);
}

TEST(Result, HoldsAValueOrItsError) {
  auto good = half(4);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(**good, 2);
  const std::unique_ptr<int> moved = std::move(good).value();
  EXPECT_EQ(*moved, 2);
  const auto bad = half(3);
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.error().message, "3 is odd");
}

TEST(Result, AStatusIsOkUnlessToldOtherwise) {
  EXPECT_TRUE(Status().ok());
  const Status failed(ErrorCode::kBusy, "full");
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "full");
}

TEST(Result, AValueThatIsItselfAnErrorStaysApart) {
  const Result<int> zero(0);
  EXPECT_TRUE(zero.ok());
  const Result<std::string> text(std::string("fine"));
  EXPECT_EQ(text->size(), 4u);
}

TEST(ErrorCode, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    names.insert(to_string(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), 10u);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(CheckDeathTest, NamesThePlaceAndAborts) {
  LYNX_CHECK(true, "fine");
  EXPECT_DEATH(LYNX_CHECK(1 + 1 == 3, "sums"), "test_result.cc:[0-9]+: check failed: 1 \\+ 1 == 3: sums");
}

TEST(Version, HasThreeParts) {
  const std::string text(version());
  EXPECT_EQ(std::count(text.begin(), text.end(), '.'), 2) << text;
}

}  // namespace
}  // namespace lynx
