// A peer that stands still, that is gone, that comes again; and each side when it goes itself. What needs a
// second process is in tests/fault.
#include <gtest/gtest.h>

#include "tests/common/transport/ucx_pair.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing_kv::config_for;
using testing_kv::kIncarnation;
using testing_kv::Outcomes;

class UcxFailures : public testing_kv::UcxPair {};

// Its receiver gives a payload up after a second.
class UcxAbsentPayloads : public testing_kv::UcxPair {
 protected:
  UcxAbsentPayloads() : UcxPair(1s) {}
  // Pushes until one lands: a machine that stands still in the middle of it loses one for the same reason.
  bool lands_again(const LeaseTicket& ticket, std::span<const std::byte> payload) {
    const auto give_up = clock.now() + kPatience;
    Outcomes outcomes;
    for (std::size_t tries = 1; outcomes.ok == 0 && clock.now() < give_up; ++tries) {
      prefill->push(push_of(ticket, 1, first_block(ticket), 1024, payload), outcomes.recorder());
      if (!settle(outcomes, tries)) return false;
    }
    return outcomes.ok == 1;
  }
};

TEST_P(UcxAbsentPayloads, APeerThatDoesNotProgressCostsTheDeadlineAndNothingMore) {
  const auto bytes = testing_kv::random_bytes(1024 * layout.block_bytes(), 1);
  const LeaseTicket ticket = lease(1024);
  ASSERT_TRUE(lands_again(ticket, bytes));
  Outcomes late;
  const auto start = clock.now();
  for (int i = 0; i < 40; ++i) {
    KvPush push = push_of(ticket, 0, first_block(ticket), 1024, bytes);
    push.deadline = start + 100ms;
    prefill->push(push, late.recorder());
  }
  while (late.total() < 40 && clock.now() < start + kPatience) prefill->progress();  // the peer stands still
  EXPECT_EQ(late.failed, 40U);
  EXPECT_GT(late.by_code[ErrorCode::kDeadlineExceeded], 0U);
  EXPECT_GE(clock.now() - start, 100ms);

  // It wakes up, and the next push opens a fresh connection.
  ASSERT_TRUE(lands_again(ticket, bytes));
  // The payloads that the closed connection still owed are given up after receive_timeout, and their blocks
  // come back.
  EXPECT_TRUE(writes_end());
  sink.ledger.release(ticket.id);
  EXPECT_TRUE(sink.ledger.all_free());
}

TEST_P(UcxFailures, ForgetFailsEveryPushToThatLifeAlone) {
  const LeaseTicket ticket = lease(256);
  const auto bytes = testing_kv::random_bytes(256 * layout.block_bytes(), 1);
  Outcomes outcomes;
  for (int i = 0; i < 30; ++i)
    prefill->push(push_of(ticket, 0, first_block(ticket), 256, bytes), outcomes.recorder());
  prefill->forget({"decode-0", kIncarnation + 1, ""});
  prefill->forget({"decode-1", kIncarnation, ""});
  prefill->forget({"decode-0", kIncarnation, ""});
  EXPECT_EQ(outcomes.total(), 0U);
  ASSERT_TRUE(settle(outcomes, 30));
  EXPECT_EQ(outcomes.by_code[ErrorCode::kUnavailable], 30U);
}

// Field report 3.
TEST_P(UcxFailures, ClosesAndReconnectsToNewLivesOfOneWorker) {
  for (std::uint64_t life = 0; life < 20; ++life) {
    SCOPED_TRACE(life);
    decode.reset();
    decode = make_decode();
    const LeaseTicket ticket = lease(32);
    const auto bytes = testing_kv::random_bytes(32 * layout.block_bytes(), life);
    Outcomes outcomes;
    prefill->push(push_of(ticket, 0, first_block(ticket), 32, bytes), outcomes.recorder());
    ASSERT_TRUE(settle(outcomes, 1));
    ASSERT_EQ(outcomes.ok, 1U) << outcomes.last_error->message;
    sink.ledger.release(ticket.id);
  }
  EXPECT_TRUE(sink.ledger.all_free());
}

// Field report 4.
TEST_P(UcxFailures, ReconnectsRightAfterAForcedClose) {
  const LeaseTicket ticket = lease(256);
  const auto bytes = testing_kv::random_bytes(256 * layout.block_bytes(), 1);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    Outcomes lost, kept;
    prefill->push(push_of(ticket, 0, first_block(ticket), 256, bytes), lost.recorder());
    for (int i = 0; i < round; ++i) {
      prefill->progress();
      decode->progress();
    }
    prefill->forget({"decode-0", kIncarnation, ""});
    prefill->push(push_of(ticket, 1, first_block(ticket), 256, bytes), kept.recorder());
    ASSERT_TRUE(settle(kept, 1));
    ASSERT_EQ(kept.ok, 1U) << kept.last_error->message;
    ASSERT_EQ(lost.total(), 1U);
  }
}

TEST_P(UcxAbsentPayloads, DestroyingTheSenderFailsWhatIsUnderWay) {
  const LeaseTicket ticket = lease(1024);
  const auto bytes = testing_kv::random_bytes(1024 * layout.block_bytes(), 1);
  Outcomes outcomes;
  push_until_under_way(ticket, bytes, outcomes, 20);
  prefill.reset();
  EXPECT_EQ(outcomes.total(), 20U);
  EXPECT_TRUE(writes_end());
  sink.ledger.release(ticket.id);
  EXPECT_TRUE(sink.ledger.all_free());
}

TEST_P(UcxFailures, DestroyingTheReceiverEndsEveryWriteAndFailsTheSender) {
  const LeaseTicket ticket = lease(1024);
  const auto bytes = testing_kv::random_bytes(1024 * layout.block_bytes(), 1);
  Outcomes outcomes;
  push_until_under_way(ticket, bytes, outcomes, 20);
  decode.reset();
  EXPECT_EQ(sink.begun, sink.ended);
  prefill->forget(
      {"decode-0", kIncarnation, ""});  // over shared memory nothing else tells: the process is alive
  EXPECT_TRUE(settle(outcomes, 20));
  EXPECT_GT(outcomes.failed, 0U);
}

// The peer may be reading them by itself when the connection is lost. Nothing is read here, so that no device
// is needed.
TEST_P(UcxFailures, ADevicesBytesAreTheOwnersAgainAtTheDeadlineAndNotBefore) {
  UcxConfig config = config_for(GetParam());
  config.checksum = false;
  prefill = std::make_unique<UcxTransport>(config, clock, std::nullopt, KvMemory::kDevice);
  const LeaseTicket ticket = lease(64);
  const auto bytes = testing_kv::random_bytes(64 * layout.block_bytes(), 1);
  KvPush push = push_of(ticket, 0, first_block(ticket), 64, bytes);
  push.deadline = clock.now() + 400ms;
  Outcomes outcomes;
  prefill->push(push, outcomes.recorder());
  prefill->progress();
  prefill->forget(push.peer);
  while (outcomes.total() == 0 && clock.now() < push.deadline + kPatience) prefill->progress();
  EXPECT_GE(clock.now(), push.deadline);
  EXPECT_EQ(outcomes.failed, 1U);
  push.deadline = clock.now() + 1h;  // and at the end, when nobody gets them next
  prefill->push(push, outcomes.recorder());
  prefill->progress();
  prefill.reset();
  EXPECT_EQ(outcomes.failed, 2U);
  EXPECT_LT(clock.now(), push.deadline - 30min);
}

TEST_P(UcxFailures, ADevicesMemoryAllowsNoChecksum) {
  EXPECT_THROW(UcxTransport(config_for(GetParam()), clock, std::nullopt, KvMemory::kDevice),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Transports, UcxFailures, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Transports, UcxAbsentPayloads, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lynx
