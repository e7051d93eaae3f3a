#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/lynx/derived_policy.h"

namespace lynx {
namespace {

TEST(PolicySettings, NamesReadBack) {
  for (const char* name :
       {"off", "lynx", "share", "oea", "xshare", "top_k_reduced", "energy", "sweep", "deny_rank"}) {
    const auto kind = parse_policy_kind(name);
    ASSERT_TRUE(kind.ok());
    EXPECT_EQ(to_string(*kind), name);
  }
  const auto wrong = parse_policy_kind("Lynx");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message,
            "policy 'Lynx' is not one of off, lynx, share, oea, xshare, top_k_reduced, energy, "
            "sweep, deny_rank");
}

TEST(PolicySettings, DefaultsFollowTheDesign) {
  // x = 8: W = ln(8) / 2, beta = 1 + 3 bins, three of them inside the window.
  const auto d = derive({.experts = 64, .top_k = 8}, {.kind = PolicyKind::kLynx});
  EXPECT_EQ(d.bins, 4u);
  EXPECT_FLOAT_EQ(d.alpha, static_cast<float>(3 / (0.5 * std::log(8.0))));
  EXPECT_EQ(d.budget, 32u);
  EXPECT_EQ(d.keep, 4u);
  EXPECT_EQ(d.share_q16, 52429u);
  EXPECT_EQ(derive({.experts = 128, .top_k = 8}, {}).bins, 5u);
  EXPECT_EQ(derive({.experts = 60, .top_k = 4}, {}).bins, 5u) << "x = 15: the logarithm is rounded up";
  EXPECT_EQ(derive({.experts = 8, .top_k = 2}, {}).keep, 2u) << "no more than k";
}

TEST(PolicySettings, DegenerateWindowsStayFinite) {
  EXPECT_EQ(derive({.experts = 8, .top_k = 8}, {}).bins, 1u);
  EXPECT_EQ(derive({.experts = 8, .top_k = 8}, {}).alpha, 0.0F);
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(std::isfinite(derive({.experts = 64, .top_k = 8}, {.window = tiny}).alpha));
}

TEST(PolicySettings, WrongOnesAreNamed) {
  const RouterShape good{.experts = 64, .top_k = 8};
  EXPECT_TRUE(check_policy(good, {}).ok());
  EXPECT_NE(check_policy({.experts = 0, .top_k = 0}, {}).error().message.find("experts"), std::string::npos);
  EXPECT_NE(check_policy({.experts = 4, .top_k = 5}, {}).error().message.find("top_k"), std::string::npos);
  EXPECT_NE(check_policy(good, {.window = -1}).error().message.find("window"), std::string::npos);
  EXPECT_NE(check_policy(good, {.window = NAN}).error().message.find("window"), std::string::npos);
  EXPECT_NE(check_policy(good, {.bins = 33}).error().message.find("bins"), std::string::npos);
  EXPECT_NE(check_policy(good, {.share = 9}).error().message.find("share"), std::string::npos);
  EXPECT_NE(check_policy(good, {.energy = 0}).error().message.find("energy"), std::string::npos);
  EXPECT_NE(check_policy(good, {.energy = NAN}).error().message.find("energy"), std::string::npos);
  EXPECT_NE(check_policy(good, {.part = 1.5F}).error().message.find("part"), std::string::npos);
}

}  // namespace
}  // namespace lynx
