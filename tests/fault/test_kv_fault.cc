// Peers that die or stand still in the middle of a KV push, as processes of their own: nobody hangs, nobody
// crashes, every block and every done() comes back. Over TCP and over shared memory.
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>
#include <thread>

#include "loadtest/bench/child_process.h"
#include "tests/fault/kv_fault.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing_kv::Outcomes;

constexpr int kLives = 20;
const std::string kPeerBinary = binary_path("tests/kv_peer");

// Stops it, and returns when it stands still.
void stop(const ChildProcess& process) {
  process.signal(SIGSTOP);
  siginfo_t info{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WSTOPPED), 0);
}

class RemoteReceiver {
 public:
  RemoteReceiver(const std::string& transport, std::uint64_t incarnation,
                 std::chrono::milliseconds receive_timeout = kPatience)
      : process({kPeerBinary, "receive", transport, std::to_string(incarnation),
                 std::to_string(receive_timeout.count())}) {
    std::istringstream in(process.read_line(kPatience).value_or(""));
    std::string word, address;
    in >> word >> address >> lease.id >> lease.generation >> lease.key;
    EXPECT_EQ(word, "ready");
    peer = {"decode-0", incarnation, fault::from_hex(address)};
  }
  // {writes begun, writes ended}; {1, 0} when it does not answer.
  std::pair<std::size_t, std::size_t> writes() {
    process.write_line("?");
    std::pair<std::size_t, std::size_t> out{1, 0};
    std::istringstream in(process.read_line(kPatience).value_or(""));
    in >> out.first >> out.second;
    return out;
  }

  ChildProcess process;
  KvPeer peer;
  LeaseTicket lease;
};

class KvFault : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { ::signal(SIGPIPE, SIG_IGN); }

  void push(UcxTransport& prefill, const RemoteReceiver& to, Outcomes& outcomes, int count,
            Clock::duration within) {
    for (int i = 0; i < count; ++i)
      prefill.push(fault::push_to(to.peer, to.lease, bytes, clock.now() + within), outcomes.recorder());
  }
  // A process that pushes into the lease without end. The receiver's incarnation is 7.
  std::unique_ptr<ChildProcess> sender_to(const UcxTransport& decode, const LeaseTicket& lease) {
    return std::make_unique<ChildProcess>(std::vector<std::string>{
        kPeerBinary, "send", GetParam(), "7", fault::to_hex(decode.address()), std::to_string(lease.id),
        std::to_string(lease.generation), std::to_string(lease.key)});
  }
  // Progress until the condition holds; false when it never does.
  template <typename Condition>
  bool progress_until(UcxTransport& transport, Condition condition) {
    const auto give_up = clock.now() + kPatience;
    bool held = condition();
    for (; !held && clock.now() < give_up; held = condition()) transport.progress();
    return held;
  }

  SteadyClock clock;
  PageLayout layout = fault::layout();
  std::vector<std::byte> bytes = testing_kv::random_bytes(fault::kRunBlocks * layout.block_bytes(), 1);
};

// Over TCP one transport survives all twenty deaths. Over shared memory each life gets its own
// (ucx_transport.h: a death inside a write leaves the queue of the survivor stuck); what must hold there is
// that everything ends.
// Field report 3.
TEST_P(KvFault, TheReceiverIsKilledInTheMiddleOfAPushTwentyTimes) {
  auto prefill = std::make_unique<UcxTransport>(fault::config(GetParam()), clock);
  const bool death_shows = GetParam() != "shm";
  Clock::duration deadline = death_shows ? Clock::duration(1h) : Clock::duration(2s);
  std::mt19937_64 random(1);
  for (int life = 1; life <= kLives;) {
    SCOPED_TRACE(life);
    if (GetParam() == "shm") prefill = std::make_unique<UcxTransport>(fault::config("shm"), clock);
    RemoteReceiver decode(GetParam(), static_cast<std::uint64_t>(life));
    Outcomes outcomes;
    const auto late = clock.now() + deadline;
    push(*prefill, decode, outcomes, 40, deadline);
    const std::size_t enough = 1 + random() % 8;
    ASSERT_TRUE(progress_until(*prefill, [&] { return outcomes.total() >= enough; }));
    if (outcomes.failed > 0 &&
        clock.now() >= late) {  // too little time for this machine: once more, with more
      deadline *= 2;
      ASSERT_TRUE(progress_until(*prefill, [&] { return outcomes.total() == 40; }));
      continue;
    }
    ASSERT_EQ(outcomes.failed, 0U) << outcomes.last_error->message;
    for (std::uint64_t i = random() % 200; i > 0 && outcomes.total() < 20; --i) prefill->progress();
    decode.process.kill_now();
    ASSERT_TRUE(progress_until(*prefill, [&] { return outcomes.total() == 40; }))
        << (death_shows ? "the death did not show" : "not even the deadline ended the pushes");
    EXPECT_GT(outcomes.failed, 0U) << "the kill hit no push";
    if (death_shows) {
      EXPECT_EQ(outcomes.by_code[ErrorCode::kUnavailable], outcomes.failed);
    }
    ++life;
  }
}

// Field report 1.
TEST_P(KvFault, TheSenderIsKilledInTheMiddleOfAPushTwentyTimes) {
  testing_kv::PoolSink sink(layout, clock);
  const auto make_decode = [&] {
    return std::make_unique<UcxTransport>(fault::config(GetParam(), 1s), clock, KvReceiver{&sink, layout, 7});
  };
  auto decode = make_decode();
  std::mt19937_64 random(2);
  int inside_a_write = 0;
  for (int life = 1; life <= kLives; ++life) {
    SCOPED_TRACE(life);
    if (GetParam() == "shm") decode = make_decode();
    const auto lease = *sink.ledger.lease(1, layout.blocks, layout.blocks, clock.now() + 1h);
    const auto prefill = sender_to(*decode, lease);
    const std::size_t enough = sink.ended + 1 + random() % 8;
    progress_until(*decode, [&] { return sink.ended >= enough && sink.begun > sink.ended; });
    ASSERT_GE(sink.ended, enough);
    if (sink.begun > sink.ended) ++inside_a_write;
    prefill->kill_now();
    EXPECT_TRUE(progress_until(*decode, [&] { return sink.begun == sink.ended; }));
    sink.ledger.release(lease.id);
    ASSERT_TRUE(sink.ledger.all_free()) << sink.ledger.to_json();
  }
  EXPECT_GE(inside_a_write, kLives / 2) << "most of the kills missed what they are about";
}

TEST_P(KvFault, AStoppedReceiverCostsTheDeadlineAndIsServedAgainWhenItWakesUp) {
  UcxTransport prefill(fault::config(GetParam()), clock);
  RemoteReceiver decode(GetParam(), 1, 1s);
  // Four pushes that all land. A machine that stands still in the middle of one loses it, as the receiver
  // gives it up: then four more.
  const auto is_served = [&] {
    Outcomes outcomes;
    for (const auto give_up = clock.now() + kPatience; outcomes.ok < 4 && clock.now() < give_up;) {
      outcomes = {};
      push(prefill, decode, outcomes, 4, kPatience);
      if (!progress_until(prefill, [&] { return outcomes.total() == 4; })) return false;
    }
    return outcomes.ok == 4;
  };
  ASSERT_TRUE(is_served());
  stop(decode.process);
  Outcomes stopped;
  const auto start = clock.now();
  push(prefill, decode, stopped, 40, 500ms);
  progress_until(prefill, [&] { return stopped.total() == 40; });
  EXPECT_EQ(stopped.failed, 40U);
  EXPECT_GE(clock.now() - start, 500ms);

  decode.process.signal(SIGCONT);
  EXPECT_TRUE(is_served());
  const auto settled = [&] {
    const auto [begun, ended] = decode.writes();
    return begun == ended;
  };
  EXPECT_TRUE(progress_until(prefill, settled)) << "payloads that never come keep their blocks";
}

TEST_P(KvFault, AStoppedSenderGivesTheBlocksBackAndCanPushAgain) {
  testing_kv::PoolSink sink(layout, clock);
  UcxTransport decode(fault::config(GetParam(), 1s), clock, KvReceiver{&sink, layout, 7});
  const auto lease = *sink.ledger.lease(1, layout.blocks, layout.blocks, clock.now() + 1h);
  const auto prefill = sender_to(decode, lease);
  progress_until(decode, [&] { return sink.ended >= 3 && sink.begun > sink.ended; });
  ASSERT_GE(sink.ended, 3U);
  stop(*prefill);
  EXPECT_TRUE(progress_until(decode, [&] { return sink.begun == sink.ended; }));

  prefill->signal(SIGCONT);
  const std::uint64_t landed = sink.landed;
  EXPECT_TRUE(progress_until(decode, [&] { return sink.landed > landed + 4 * bytes.size(); }));
  prefill->kill_now();
  progress_until(decode, [&] { return sink.begun == sink.ended; });
  sink.ledger.release(lease.id);
  EXPECT_TRUE(sink.ledger.all_free()) << sink.ledger.to_json();
}

// Field report 3.
TEST_P(KvFault, AStaleAddressFailsLongBeforeTheDeadline) {
  UcxTransport prefill(fault::config(GetParam()), clock);
  RemoteReceiver decode(GetParam(), 1);
  decode.process.kill_now();
  Outcomes outcomes;
  push(prefill, decode, outcomes, 4, 1h);
  EXPECT_TRUE(progress_until(prefill, [&] { return outcomes.total() == 4; }));
  EXPECT_EQ(outcomes.by_code[ErrorCode::kUnavailable], 4U);
}

TEST_P(KvFault, ForgettingAStoppedPeerEndsItsPushesAtOnce) {
  UcxTransport prefill(fault::config(GetParam()), clock);
  RemoteReceiver decode(GetParam(), 1);
  Outcomes first;
  push(prefill, decode, first, 1, kPatience);
  ASSERT_TRUE(progress_until(prefill, [&] { return first.total() == 1; }));
  stop(decode.process);
  Outcomes outcomes;
  push(prefill, decode, outcomes, 40, 1h);
  for (int i = 0; i < 100; ++i) prefill.progress();
  prefill.forget(decode.peer);
  EXPECT_TRUE(progress_until(prefill, [&] { return outcomes.total() == 40; }));
  EXPECT_EQ(outcomes.failed, 40U);
}

INSTANTIATE_TEST_SUITE_P(Transports, KvFault, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lynx
