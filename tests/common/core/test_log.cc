#include <gtest/gtest.h>

#include "common/core/log.h"

namespace lynx {
namespace {

TEST(Log, OneLineOnStderrWithServiceLevelAndMessage) {
  ::testing::internal::CaptureStderr();
  init_logging("router", "info");
  log::info("served {} requests", 3);
  log::debug("not shown");
  log::warn("flushed");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("info [router] served 3 requests\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("not shown"), std::string::npos);
}

TEST(Log, RefusesAnotherWord) {
  EXPECT_THROW(init_logging("router", "loud"), std::runtime_error);
  EXPECT_NO_THROW(init_logging("router", "off"));
}

}  // namespace
}  // namespace lynx
