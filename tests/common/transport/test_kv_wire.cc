#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "common/transport/kv_wire.h"
#include "tests/common/transport/push_fixtures.h"

namespace lynx {
namespace {

kv_wire::Push sample() {
  kv_wire::Push push;
  push.push_id = 77;
  push.incarnation = 0xabcdef0123456789ULL;
  push.checksum = 5;
  push.read_before = 8;
  push.host = 9;
  push.header.lease = {1, 2, 3};
  push.header.kv_layout = 4;
  push.header.layer = 5;
  push.header.first_block = 6;
  push.header.blocks = 7;
  return push;
}

void expect_equal(const kv_wire::Push& a, const kv_wire::Push& b) {
  EXPECT_EQ(a.push_id, b.push_id);
  EXPECT_EQ(a.incarnation, b.incarnation);
  EXPECT_EQ(a.checksum, b.checksum);
  EXPECT_EQ(a.read_before, b.read_before);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.header.lease.id, b.header.lease.id);
  EXPECT_EQ(a.header.lease.generation, b.header.lease.generation);
  EXPECT_EQ(a.header.lease.key, b.header.lease.key);
  EXPECT_EQ(a.header.kv_layout, b.header.kv_layout);
  EXPECT_EQ(a.header.layer, b.header.layer);
  EXPECT_EQ(a.header.first_block, b.header.first_block);
  EXPECT_EQ(a.header.blocks, b.header.blocks);
  ASSERT_EQ(a.header.first_token.has_value(), b.header.first_token.has_value());
}

TEST(KvWire, APushComesBackAsItWas) {
  const auto back = kv_wire::decode_push(kv_wire::bytes_of(kv_wire::encode(sample())));
  ASSERT_TRUE(back.ok()) << back.error().message;
  expect_equal(*back, sample());
}

TEST(KvWire, TheFirstTokenTravelsWithTheLastPush) {
  kv_wire::Push push = sample();
  push.header.first_token = SampledTokenData{9, 8, 2, -0.5F, {{1, -1.0F}, {2, -2.0F}}};
  const auto back = kv_wire::decode_push(kv_wire::bytes_of(kv_wire::encode(push)));
  ASSERT_TRUE(back.ok()) << back.error().message;
  expect_equal(*back, push);
  const SampledTokenData& token = *back->header.first_token;
  EXPECT_EQ(token.token, 9U);
  EXPECT_EQ(token.index, 8U);
  EXPECT_EQ(token.finish, 2);
  EXPECT_EQ(token.logprob, -0.5F);
  EXPECT_EQ(token.top_logprobs, push.header.first_token->top_logprobs);
}

TEST(KvWire, AHeaderMayArriveAtAnyAddress) {
  const auto words = kv_wire::encode(sample());
  const auto bytes = kv_wire::bytes_of(words);
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  const auto back = kv_wire::decode_push(std::span(shifted).subspan(1));
  ASSERT_TRUE(back.ok()) << back.error().message;
  expect_equal(*back, sample());
}

TEST(KvWire, AnUnknownFinishReasonIsCorrupt) {
  kv_wire::Push push = sample();
  push.header.first_token = SampledTokenData{};
  push.header.first_token->finish = 3;
  EXPECT_EQ(kv_wire::decode_push(kv_wire::bytes_of(kv_wire::encode(push))).error().code, ErrorCode::kCorrupt);
}

TEST(KvWire, BrokenHeadersAreErrorsNeverCrashes) {
  EXPECT_FALSE(kv_wire::decode_push({}).ok());
  EXPECT_FALSE(kv_wire::decode_ack({}).ok());
  kv_wire::Push push = sample();
  push.header.first_token = SampledTokenData{9, 8, 2, -0.5F, {{1, -1.0F}}};
  const auto words = kv_wire::encode(push);
  const auto good = kv_wire::bytes_of(words);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(kv_wire::decode_push(good.first(length)).ok()) << length;

  std::mt19937_64 random(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bad(good.begin(), good.end());
    for (int flips = 0; flips < 3; ++flips)
      bad[random() % bad.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    refused += kv_wire::decode_push(bad).ok() ? 0 : 1;
    (void)kv_wire::decode_ack(bad);
  }
  EXPECT_GT(refused, 0U);
}

TEST(KvWire, AcknowledgementsCarryTheFault) {
  const auto yes = kv_wire::decode_ack(kv_wire::bytes_of(kv_wire::encode(kv_wire::Ack{5, {}})));
  ASSERT_TRUE(yes.ok());
  EXPECT_EQ(yes->push_id, 5U);
  EXPECT_TRUE(yes->verdict.ok());

  const Error fault{ErrorCode::kPermission, "no such lease"};
  const auto no = kv_wire::decode_ack(kv_wire::bytes_of(kv_wire::encode(kv_wire::Ack{6, fault})));
  ASSERT_TRUE(no.ok());
  EXPECT_EQ(no->push_id, 6U);
  EXPECT_EQ(no->verdict.error().code, fault.code);
  EXPECT_EQ(no->verdict.error().message, fault.message);
}

TEST(KvWire, TheChecksumSeesEveryBitAndTheOrder) {
  std::vector<std::byte> bytes = testing_kv::random_bytes(101, 3);
  const std::uint64_t whole = kv_wire::checksum(bytes);
  EXPECT_NE(whole, 0U);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(kv_wire::checksum(bytes), whole) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + 32, bytes.begin() + 32);
  EXPECT_NE(kv_wire::checksum(bytes), whole);
  EXPECT_NE(kv_wire::checksum({}), 0U);
  EXPECT_NE(kv_wire::checksum(std::span(bytes).first(100)), kv_wire::checksum(bytes));
}

}  // namespace
}  // namespace lynx
