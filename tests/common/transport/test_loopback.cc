#include <gtest/gtest.h>

#include <memory>

#include "common/transport/loopback.h"
#include "tests/common/transport/push_fixtures.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing_kv::Outcomes;

class Loopback : public testing::Test {
 protected:
  Loopback() : ticket(*sink.ledger.lease(1, 4, 4, clock.now() + 10s)) {}

  KvPush push_of(std::span<const std::byte> payload) const {
    return {{"decode-0", 42, decode->address()},
            {ticket, layout.fingerprint(), 1, 1, 2, SampledTokenData{3, 0, 0, 0, {}}},
            payload,
            clock.now() + 1s};
  }
  Error refused(KvPush push) {
    Outcomes outcomes;
    prefill.push(std::move(push), outcomes.recorder());
    prefill.progress();
    EXPECT_EQ(outcomes.failed, 1U);
    return outcomes.last_error.value_or(Error{});
  }

  ManualClock clock;
  PageLayout layout = testing_kv::small_layout(8);
  testing_kv::PoolSink sink{layout, clock};
  LeaseTicket ticket;
  LoopbackNetwork network;
  LoopbackTransport prefill{network, clock};
  std::unique_ptr<LoopbackTransport> decode =
      std::make_unique<LoopbackTransport>(network, clock, KvReceiver{&sink, layout, 42});
  std::vector<std::byte> bytes = testing_kv::random_bytes(2 * layout.block_bytes(), 1);
};

TEST_F(Loopback, BytesLandInTheLeasedBlocksFromProgress) {
  Outcomes outcomes;
  prefill.push(push_of(bytes), outcomes.recorder());
  EXPECT_EQ(outcomes.total(), 0U);
  EXPECT_FALSE(prefill.arm());
  EXPECT_EQ(prefill.transport_name(), "");
  prefill.progress();
  EXPECT_EQ(outcomes.ok, 1U);
  EXPECT_EQ(outcomes.bytes, bytes.size());
  EXPECT_EQ(prefill.transport_name(), "loopback");
  const auto landed = sink.run(1, 1, 2);
  EXPECT_TRUE(std::equal(landed.begin(), landed.end(), bytes.begin(), bytes.end()));
  EXPECT_EQ(sink.first_token->token, 3U);
  EXPECT_EQ(sink.ended, 1U);
}

TEST_F(Loopback, AWrongIncarnationLayoutLayerRunOrLengthIsRefusedBeforeTheSink) {
  KvPush push = push_of(bytes);
  push.peer.incarnation = 41;
  EXPECT_EQ(refused(push).code, ErrorCode::kUnavailable);
  push = push_of(bytes);
  push.header.kv_layout ^= 1;
  EXPECT_EQ(refused(push).code, ErrorCode::kIncompatible);
  push = push_of(bytes);
  push.header.layer = 2;
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
  push = push_of(bytes);
  push.header.first_block = 7;
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
  push = push_of(bytes);
  push.header.blocks = 0xffffffffU;
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(push_of(std::span(bytes).first(100))).code, ErrorCode::kCorrupt);
  EXPECT_EQ(sink.begun, 0U);
}

TEST_F(Loopback, TheSinksRefusalReachesTheSender) {
  KvPush push = push_of(bytes);
  push.header.lease.key ^= 1;
  EXPECT_EQ(refused(push).code, ErrorCode::kPermission);
  sink.ledger.release(ticket.id);
  EXPECT_EQ(refused(push_of(bytes)).code, ErrorCode::kNotFound);
}

TEST_F(Loopback, DeadlinesLostPeersAndForgottenPeersFail) {
  KvPush late = push_of(bytes);
  late.deadline = clock.now();
  EXPECT_EQ(refused(late).code, ErrorCode::kDeadlineExceeded);

  Outcomes outcomes;
  prefill.push(push_of(bytes), outcomes.recorder());
  prefill.forget({"decode-0", 42, ""});
  EXPECT_EQ(outcomes.total(), 0U);
  prefill.progress();
  EXPECT_EQ(outcomes.by_code[ErrorCode::kUnavailable], 1U);

  const KvPush push = push_of(bytes);
  decode.reset();
  EXPECT_EQ(refused(push).code, ErrorCode::kUnavailable);
}

TEST_F(Loopback, DoneMayPushAgain) {
  int left = 3;
  Outcomes outcomes;
  KvTransport::Done again = [&](Result<std::uint64_t> result) {
    EXPECT_TRUE(result.ok());
    if (--left > 0) prefill.push(push_of(bytes), again);
  };
  prefill.push(push_of(bytes), again);
  for (int i = 3; i > 0; --i) EXPECT_EQ(prefill.progress(), 1U);
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace lynx
