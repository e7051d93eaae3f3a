#include "services/router/cache_scope.h"

#include <gtest/gtest.h>

namespace lynx {
namespace {

TEST(CacheScope, DependsOnKeySaltAndSecret) {
  const CacheScope scope("secret", true);
  EXPECT_EQ(scope.of("", ""), 0U);
  const std::uint64_t key = scope.of("Bearer a", "");
  EXPECT_NE(key, 0U);
  EXPECT_EQ(CacheScope("secret", true).of("Bearer a", ""), key) << "on every router";
  EXPECT_NE(CacheScope("other", true).of("Bearer a", ""), key);
  EXPECT_NE(scope.of("Bearer a", "b"), key);
  EXPECT_NE(scope.of("Bearer a", "b"), scope.of("Bearer ab", ""));
  EXPECT_NE(scope.of("", "Bearer a"), key) << "a salt is no key";
}

TEST(CacheScope, WithoutASecretItDrawsOne) {
  const CacheScope scope("", true), other("", true);
  EXPECT_NE(scope.of("Bearer a", ""), 0U);
  EXPECT_EQ(scope.of("Bearer a", ""), scope.of("Bearer a", ""));
  EXPECT_NE(scope.of("Bearer a", ""), other.of("Bearer a", "")) << "an unkeyed digest of a client's key";
  EXPECT_NE(scope.of("", "salt"), other.of("", "salt"));
}

TEST(CacheScope, WithoutKeysTheSaltAloneCounts) {
  const CacheScope scope("secret", false);
  EXPECT_EQ(scope.of("Bearer a", ""), 0U);
  EXPECT_NE(scope.of("Bearer a", "b"), 0U);
  EXPECT_EQ(scope.of("Bearer a", "b"), scope.of("Bearer c", "b"));
}

}  // namespace
}  // namespace lynx
