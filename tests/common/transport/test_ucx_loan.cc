// The loan of a device's bytes (kv_loan.h) in UCX's sender and receiver. No device is needed: the sender's
// side is about when bytes are handed back, and the receiver's side sees a header that lends bytes of the
// host.
#include <gtest/gtest.h>

#include <memory>

#include "common/transport/kv_loan.h"
#include "common/transport/ucx_connection.h"
#include "common/transport/ucx_transport.h"
#include "tests/common/transport/push_fixtures.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kIncarnation = 42;

UcxConfig over_shared_memory() {
  UcxConfig config;
  config.transport = "shm";
  return config;
}

class UcxLoan : public testing::Test {
 protected:
  KvPeer peer() const { return {"decode-0", kIncarnation, decode.address()}; }
  std::unique_ptr<UcxPush> push_of(std::uint32_t blocks, Clock::time_point deadline) {
    auto push = std::make_unique<UcxPush>();
    push->push.peer = peer();
    push->push.bytes = std::span(bytes).first(blocks * layout.block_bytes());
    push->push.deadline = deadline;
    return push;
  }
  template <typename Condition>
  bool progress_until(UcxWorker& worker, Condition condition) {
    const auto give_up = clock.now() + kPatience;
    while (!condition() && clock.now() < give_up) ucp_worker_progress(worker.get());
    return condition();
  }

  SteadyClock clock;
  PageLayout layout = testing_kv::small_layout(1024);
  std::vector<std::byte> bytes = testing_kv::random_bytes(64 * layout.block_bytes(), 1);
  testing_kv::PoolSink sink{layout, clock};
  UcxConfig config = over_shared_memory();
  UcxTransport decode{config, clock, KvReceiver{&sink, layout, kIncarnation}};
};

// How many pushes this lets out at `now`.
std::size_t finished_at(UcxConnection& connection, Clock::time_point now) {
  UcxConnection::Finished finished;
  connection.step(now, finished);
  return finished.size();
}

// A peer that stands still, and a UCX that never ends the close: after a while the push is left behind.
std::size_t finished_after_leaving(UcxConnection& connection, UcxPush& push, Clock::time_point start) {
  push.terminal = false;
  EXPECT_EQ(finished_at(connection, start), 0U);
  return finished_at(connection, start + 2s);
}

TEST_F(UcxLoan, WhatUcxNeverLetsGoOfIsLentToItsDeadlineInADevicesMemoryAlone) {
  for (const KvMemory memory : {KvMemory::kHost, KvMemory::kDevice}) {
    SCOPED_TRACE(memory == KvMemory::kHost ? "host" : "device");
    const UcxContext context(config, memory);
    UcxWorker worker(context);
    UcxConnection connection(worker, config, peer(), memory);
    const auto start = clock.now();
    auto owned = push_of(64, start + 1min);
    UcxPush& push = *owned;
    connection.enqueue(std::move(owned));
    EXPECT_TRUE(push.sent);
    connection.abandon({ErrorCode::kUnavailable, "gone"});
    ASSERT_TRUE(progress_until(worker, [&] { return push.terminal; }));

    const std::size_t left = finished_after_leaving(connection, push, start);
    EXPECT_EQ(left, memory == KvMemory::kHost ? 1U : 0U);
    EXPECT_EQ(finished_at(connection, start + 59s), 0U);
    EXPECT_EQ(left + finished_at(connection, start + 1min), 1U);
    push.terminal = true;
    EXPECT_EQ(finished_at(connection, start + 1min), 0U);
    EXPECT_TRUE(progress_until(worker, [&] { return connection.drained(); }));
    EXPECT_EQ(finished_at(connection, start + 2min), 0U);
    EXPECT_TRUE(connection.idle());
  }
}

TEST(UcxPush, IsLentOnceUcxTookItAndUntilThePeerAnswers) {
  UcxPush push;
  EXPECT_FALSE(is_lent(push, KvMemory::kDevice)) << "UCX refused it: nobody heard of it";
  push.sent = true;
  EXPECT_TRUE(is_lent(push, KvMemory::kDevice));
  EXPECT_FALSE(is_lent(push, KvMemory::kHost)) << "UCX reads the host's memory in this process";
  push.answered = true;
  EXPECT_FALSE(is_lent(push, KvMemory::kDevice));
}

// The receiver's side of a loan, under a clock that the test moves.
class UcxLoanReceiver : public testing::Test {
 protected:
  UcxLoanReceiver() {
    clock.advance(5s);
    worker.on_message(kUcxAck, on_ack, this);
  }

  static ucs_status_t on_ack(void* self, const void* header, std::size_t size, void*, std::size_t,
                             const ucp_am_recv_param_t*) {
    auto& test = *static_cast<UcxLoanReceiver*>(self);
    const auto ack = kv_wire::decode_ack({static_cast<const std::byte*>(header), size});
    EXPECT_TRUE(ack.ok());
    if (!ack.ok()) return UCS_OK;
    test.verdict = ack->verdict;
    test.connection.acknowledge(*ack);
    return UCS_OK;
  }

  void push(Clock::time_point read_before, std::uint64_t host) {
    kv_wire::Push wire{.push_id = 1,
                       .incarnation = kIncarnation,
                       .header = {lease, layout.fingerprint(), 0, sink.ledger.find(lease.id)->blocks.front(),
                                  kBlocks, std::nullopt}};
    kv_loan::lend(wire, read_before, host);
    auto push = std::make_unique<UcxPush>();
    push->id = wire.push_id;
    push->header = kv_wire::encode(wire);
    push->push.bytes = bytes;
    push->push.deadline = Clock::time_point::max();
    connection.enqueue(std::move(push));
  }
  template <typename Condition>
  bool progress_until(Condition condition) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!condition() && std::chrono::steady_clock::now() < give_up) {
      ucp_worker_progress(worker.get());
      decode.progress();
      UcxConnection::Finished finished;
      connection.step(clock.now(), finished);
    }
    return condition();
  }
  // The verdict on a push that is under way when the time comes.
  Status verdict_after(Clock::duration passes) {
    EXPECT_TRUE(progress_until([&] { return sink.begun == 1; }));
    EXPECT_EQ(sink.ended, 0U) << "it landed before the time had come";
    clock.advance(passes);
    EXPECT_TRUE(progress_until([&] { return verdict.has_value(); }));
    EXPECT_EQ(sink.ended, 1U);
    return verdict.value_or(Error{ErrorCode::kInternal, "no verdict"});
  }

  static constexpr std::uint32_t kBlocks = 1024;
  const std::uint64_t here = kv_loan::this_host();
  ManualClock clock;
  PageLayout layout = testing_kv::small_layout(kBlocks);
  std::vector<std::byte> bytes = testing_kv::random_bytes(kBlocks * layout.block_bytes(), 1);
  testing_kv::PoolSink sink{layout, clock};
  LeaseTicket lease = *sink.ledger.lease(1, kBlocks, kBlocks, clock.now() + 1h);
  UcxConfig config = over_shared_memory();
  UcxTransport decode{config, clock, KvReceiver{&sink, layout, kIncarnation}};
  UcxContext context{config, KvMemory::kHost};
  UcxWorker worker{context};
  UcxConnection connection{worker, config, {"decode-0", kIncarnation, decode.address()}, KvMemory::kHost};
  std::optional<Status> verdict;
};

TEST_F(UcxLoanReceiver, WhatItReadInTimeLands) {
  push(clock.now() + 1s, here);
  EXPECT_TRUE(verdict_after(999ms));
  EXPECT_EQ(sink.landed, bytes.size());
}

TEST_F(UcxLoanReceiver, WhatItReadAfterTheEndIsNoKv) {
  push(clock.now() + 1s, here);
  const Status late = verdict_after(1s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(sink.landed, 0U);
  ASSERT_TRUE(sink.last_error);
  EXPECT_EQ(sink.last_error->code, ErrorCode::kDeadlineExceeded);
}

TEST_F(UcxLoanReceiver, AnotherHostsClockSaysNothing) {
  push(clock.now() + 1s, here + 1);
  EXPECT_TRUE(verdict_after(1s));
  EXPECT_EQ(sink.landed, bytes.size());
}

TEST_F(UcxLoanReceiver, ALoanThatIsOverIsNotReadAtAll) {
  push(clock.now(), here);
  ASSERT_TRUE(progress_until([&] { return verdict.has_value(); }));
  ASSERT_FALSE(*verdict);
  EXPECT_EQ(verdict->error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(sink.begun, 0U);
}

}  // namespace
}  // namespace lynx
