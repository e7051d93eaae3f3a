// Pushes that are wrong are answered with their fault, here or there.
#include <gtest/gtest.h>

#include "tests/common/transport/ucx_pair.h"

namespace lynx {
namespace {

class UcxRefusals : public testing_kv::UcxPair {};

TEST_P(UcxRefusals, EveryWrongPushIsAnsweredWithItsFault) {
  const LeaseTicket ticket = lease(8);
  const BlockId first = first_block(ticket);
  for (const std::uint32_t blocks : {1U, 8U}) {  // eager and rendezvous
    SCOPED_TRACE(blocks);
    const auto bytes = testing_kv::random_bytes(blocks * layout.block_bytes(), 1);
    const KvPush good = push_of(ticket, 0, first, blocks, bytes);
    KvPush push = good;
    push.peer.incarnation += 1;
    EXPECT_EQ(refused(push).code, ErrorCode::kUnavailable);
    push = good;
    push.header.kv_layout += 1;
    const Error layouts = refused(push);
    EXPECT_EQ(layouts.code, ErrorCode::kIncompatible);
    EXPECT_NE(layouts.message.find(std::to_string(layout.fingerprint())), std::string::npos);
    push = good;
    push.header.lease.id += 1;
    EXPECT_EQ(refused(push).code, ErrorCode::kNotFound);
    push = good;
    push.header.lease.generation += 1;
    EXPECT_EQ(refused(push).code, ErrorCode::kPermission);
    push = good;
    push.header.lease.key += 1;
    EXPECT_EQ(refused(push).code, ErrorCode::kPermission);
    push = good;
    push.header.first_block += 8;
    EXPECT_EQ(refused(push).code, ErrorCode::kPermission);
    push = good;
    push.header.layer = 2;
    EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
    push = good;
    push.header.blocks += 1;
    EXPECT_EQ(refused(push).code, ErrorCode::kCorrupt);
  }
  sink.ledger.release(ticket.id);
  const auto bytes = testing_kv::random_bytes(8 * layout.block_bytes(), 1);
  EXPECT_EQ(refused(push_of(ticket, 0, first, 8, bytes)).code, ErrorCode::kNotFound);
  EXPECT_EQ(sink.begun, 0U);
}

TEST_P(UcxRefusals, AddressesThatAreNoneAreRefused) {
  const LeaseTicket ticket = lease(1);
  const auto bytes = testing_kv::random_bytes(layout.block_bytes(), 1);
  KvPush push = push_of(ticket, 0, first_block(ticket), 1, bytes);
  const std::string good = push.peer.address;
  push.peer.address = "";
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
  push.peer.address = "127.0.0.1:7000, and something after it";
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
  push.peer.address = good.substr(0, good.size() - 1);
  EXPECT_EQ(refused(push).code, ErrorCode::kCorrupt);
  push.peer.address = good;
  push.peer.address[20] = static_cast<char>(push.peer.address[20] ^ 1);
  EXPECT_EQ(refused(push).code, ErrorCode::kCorrupt);
  push.peer.address = good;
  push.peer.address[4] = static_cast<char>(push.peer.address[4] ^ 1);
  EXPECT_EQ(refused(push).code, ErrorCode::kIncompatible);
}

// Field report 2: what cannot be posted is an outcome, not a line in a log.
TEST_P(UcxRefusals, AHeaderThatDoesNotFitIsRefusedHere) {
  const LeaseTicket ticket = lease(1);
  const auto bytes = testing_kv::random_bytes(layout.block_bytes(), 1);
  KvPush push = push_of(ticket, 0, first_block(ticket), 1, bytes);
  push.header.first_token = SampledTokenData{};
  push.header.first_token->top_logprobs.resize(100'000);
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Transports, UcxRefusals, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lynx
