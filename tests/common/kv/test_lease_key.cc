#include <gtest/gtest.h>

#include <set>

#include "common/kv/lease_key.h"

namespace lynx {
namespace {

TEST(LeaseKey, SipHashEqualsThePublishedVector) {
  // Key 00..0f, message 00..07: the ninth line of the reference vectors.
  EXPECT_EQ(siphash_word(0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL, 0x0706050403020100ULL),
            0x93f5f5799a932462ULL);
}

TEST(LeaseKey, DiffersByLeaseAndBySeed) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 16; ++seed)
    for (std::uint64_t id = 0; id < 64; ++id) keys.insert(lease_key(seed, id));
  EXPECT_EQ(keys.size(), 16U * 64);
}

}  // namespace
}  // namespace lynx
