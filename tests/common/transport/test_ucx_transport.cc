// Two transports in one process, over TCP and over shared memory. What needs a second process is in
// tests/fault.
#include <gtest/gtest.h>

#include <poll.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "common/transport/ucx_info.h"
#include "common/transport/ucx_transport.h"
#include "tests/common/transport/push_fixtures.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing_kv::Outcomes;

constexpr std::uint64_t kIncarnation = 42;

UcxConfig config_for(const std::string& transport) {
  UcxConfig config;
  config.transport = transport;
  config.require_transport = transport;
  config.checksum = true;
  config.receive_timeout = 1s;
  if (transport == "tcp") config.net_devices = "lo";
  return config;
}

class Ucx : public testing::TestWithParam<std::string> {
 protected:
  Ucx() { decode = make_decode(); }

  std::unique_ptr<UcxTransport> make_decode() {
    return std::make_unique<UcxTransport>(config_for(GetParam()), clock,
                                          KvReceiver{&sink, layout, kIncarnation});
  }
  LeaseTicket lease(std::uint32_t blocks) { return *sink.ledger.lease(1, blocks, blocks, clock.now() + 60s); }
  BlockId first_block(const LeaseTicket& ticket) { return sink.ledger.find(ticket.id)->blocks.front(); }

  KvPush push_of(const LeaseTicket& ticket, std::uint32_t layer, BlockId first, std::uint32_t blocks,
                 std::span<const std::byte> payload) {
    return {{"decode-0", kIncarnation, decode->address()},
            {ticket, layout.fingerprint(), layer, first, blocks, std::nullopt},
            payload,
            clock.now() + 20s};
  }
  // Progress on both sides until everything has ended; false after ten seconds.
  bool settle(const Outcomes& outcomes, std::size_t total) {
    const auto give_up = clock.now() + 10s;
    while (outcomes.total() < total && clock.now() < give_up) {
      prefill->progress();
      if (decode) decode->progress();
    }
    return outcomes.total() == total;
  }
  bool writes_end() {
    const auto give_up = clock.now() + 10s;
    while (sink.begun != sink.ended && clock.now() < give_up) decode->progress();
    return sink.begun == sink.ended;
  }
  // Pushes 4 MB pieces until at least one is half way.
  void push_until_under_way(const LeaseTicket& ticket, std::span<const std::byte> payload, Outcomes& outcomes,
                            int count) {
    for (int i = 0; i < count; ++i)
      prefill->push(push_of(ticket, 0, first_block(ticket), 1024, payload), outcomes.recorder());
    const auto give_up = clock.now() + 10s;
    while (sink.begun == sink.ended && clock.now() < give_up) {
      prefill->progress();
      decode->progress();
    }
    ASSERT_GT(sink.begun, sink.ended);
  }
  Error refused(KvPush push) {
    Outcomes outcomes;
    prefill->push(std::move(push), outcomes.recorder());
    EXPECT_TRUE(settle(outcomes, 1));
    EXPECT_EQ(outcomes.failed, 1U);
    return outcomes.last_error.value_or(Error{ErrorCode::kInternal, "not refused"});
  }

  SteadyClock clock;
  PageLayout layout = testing_kv::small_layout(9000);
  testing_kv::PoolSink sink{layout, clock};
  std::unique_ptr<UcxTransport> decode;
  std::unique_ptr<UcxTransport> prefill = std::make_unique<UcxTransport>(config_for(GetParam()), clock);
};

TEST_P(Ucx, EverySizeFromOneBlockTo16MbArrivesExactly) {
  for (const std::uint32_t blocks : {1U, 2U, 3U, 4U, 5U, 16U, 63U, 256U, 1024U, 4096U}) {
    SCOPED_TRACE(blocks);
    const LeaseTicket ticket = lease(blocks);
    const auto bytes = testing_kv::random_bytes(blocks * layout.block_bytes(), blocks);
    Outcomes outcomes;
    prefill->push(push_of(ticket, 1, first_block(ticket), blocks, bytes), outcomes.recorder());
    EXPECT_EQ(outcomes.total(), 0U) << "done() came from push()";
    ASSERT_TRUE(settle(outcomes, 1));
    ASSERT_EQ(outcomes.ok, 1U) << outcomes.last_error->message;
    EXPECT_EQ(outcomes.bytes, bytes.size());
    const auto landed = sink.run(1, first_block(ticket), blocks);
    EXPECT_TRUE(std::equal(landed.begin(), landed.end(), bytes.begin(), bytes.end()));
    sink.ledger.release(ticket.id);
  }
  EXPECT_TRUE(sink.ledger.all_free());
  EXPECT_EQ(prefill->transport_name(), GetParam());
  EXPECT_EQ(decode->transport_name(), GetParam());
}

TEST_P(Ucx, ThousandsOfPushesOfInterleavedLeasesAllLand) {
  constexpr std::uint32_t kLeases = 8, kBlocks = 64, kRounds = 100;
  std::vector<LeaseTicket> tickets;
  std::vector<std::vector<std::byte>> prompts;  // [lease][2 layers x blocks]
  for (std::uint32_t i = 0; i < kLeases; ++i) {
    tickets.push_back(lease(kBlocks));
    prompts.push_back(testing_kv::random_bytes(2 * kBlocks * layout.block_bytes(), i));
  }
  std::mt19937_64 random(5);
  Outcomes outcomes;
  std::size_t pushed = 0;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t i = 0; i < kLeases; ++i) {
      for (std::uint32_t layer = 0; layer < 2; ++layer) {
        const auto split = static_cast<std::uint32_t>(1 + random() % (kBlocks - 1));
        for (const auto& [from, count] : {std::pair{0U, split}, std::pair{split, kBlocks - split}}) {
          const auto part =
              std::span(prompts[i])
                  .subspan((layer * kBlocks + from) * layout.block_bytes(), count * layout.block_bytes());
          prefill->push(push_of(tickets[i], layer, first_block(tickets[i]) + from, count, part),
                        outcomes.recorder());
          ++pushed;
        }
      }
    }
    if (round % 10 == 9) {
      ASSERT_TRUE(settle(outcomes, pushed));
    }
  }
  ASSERT_TRUE(settle(outcomes, pushed));
  EXPECT_EQ(outcomes.ok, 3200U);
  EXPECT_EQ(sink.begun, sink.ended);
  for (std::uint32_t i = 0; i < kLeases; ++i) {
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      const auto landed = sink.run(layer, first_block(tickets[i]), kBlocks);
      EXPECT_TRUE(std::equal(landed.begin(), landed.end(),
                             prompts[i].begin() + static_cast<std::ptrdiff_t>(layer * landed.size())));
    }
  }
}

TEST_P(Ucx, TheFirstTokenArrivesWithItsPush) {
  const LeaseTicket ticket = lease(1);
  const auto bytes = testing_kv::random_bytes(layout.block_bytes(), 1);
  KvPush push = push_of(ticket, 0, first_block(ticket), 1, bytes);
  push.header.first_token = SampledTokenData{11, 0, 1, -1.5F, {{11, -1.5F}, {12, -2.0F}}};
  Outcomes outcomes;
  prefill->push(push, outcomes.recorder());
  ASSERT_TRUE(settle(outcomes, 1));
  ASSERT_TRUE(sink.first_token);
  EXPECT_EQ(sink.first_token->token, 11U);
  EXPECT_EQ(sink.first_token->top_logprobs.size(), 2U);
}

TEST_P(Ucx, EveryWrongPushIsAnsweredWithItsFault) {
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

TEST_P(Ucx, APeerThatDoesNotProgressCostsTheDeadlineAndNothingMore) {
  const auto bytes = testing_kv::random_bytes(1024 * layout.block_bytes(), 1);
  const LeaseTicket ticket = lease(1024);
  Outcomes first;
  prefill->push(push_of(ticket, 0, first_block(ticket), 1024, bytes), first.recorder());
  ASSERT_TRUE(settle(first, 1));
  ASSERT_EQ(first.ok, 1U) << first.last_error->message;

  Outcomes late;
  const auto start = clock.now();
  for (int i = 0; i < 40; ++i) {
    KvPush push = push_of(ticket, 0, first_block(ticket), 1024, bytes);
    push.deadline = start + 100ms;
    prefill->push(push, late.recorder());
  }
  while (late.total() < 40 && clock.now() < start + 5s) prefill->progress();  // the peer stands still
  EXPECT_EQ(late.failed, 40U);
  EXPECT_GT(late.by_code[ErrorCode::kDeadlineExceeded], 0U);
  EXPECT_GE(clock.now() - start, 100ms);

  // It wakes up, and the next push opens a fresh connection.
  Outcomes again;
  prefill->push(push_of(ticket, 1, first_block(ticket), 1024, bytes), again.recorder());
  ASSERT_TRUE(settle(again, 1));
  EXPECT_EQ(again.ok, 1U) << again.last_error->message;
  // The payloads that the closed connection still owed are given up after receive_timeout, and their blocks
  // come back.
  EXPECT_TRUE(writes_end());
  sink.ledger.release(ticket.id);
  EXPECT_TRUE(sink.ledger.all_free());
}

TEST_P(Ucx, ForgetFailsEveryPushToThatLifeAlone) {
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
TEST_P(Ucx, ClosesAndReconnectsToNewLivesOfOneWorker) {
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
TEST_P(Ucx, ReconnectsRightAfterAForcedClose) {
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

TEST_P(Ucx, AddressesThatAreNoneAreRefused) {
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
TEST_P(Ucx, AHeaderThatDoesNotFitIsRefusedHere) {
  const LeaseTicket ticket = lease(1);
  const auto bytes = testing_kv::random_bytes(layout.block_bytes(), 1);
  KvPush push = push_of(ticket, 0, first_block(ticket), 1, bytes);
  push.header.first_token = SampledTokenData{};
  push.header.first_token->top_logprobs.resize(100'000);
  EXPECT_EQ(refused(push).code, ErrorCode::kInvalidArgument);
}

// One turn of an event loop: handles what there is, then sleeps until something comes. wanted() is asked in
// between.
template <typename Wanted>
void turn(UcxTransport& transport, Wanted wanted) {
  while (transport.progress() > 0) {
  }
  if (!wanted() || !transport.arm()) return;
  pollfd fd{transport.event_fd(), POLLIN, 0};
  poll(&fd, 1, 1000);
}

TEST_P(Ucx, TheEventDescriptorWakesBothSides) {
  const LeaseTicket ticket = lease(64);
  const auto bytes = testing_kv::random_bytes(64 * layout.block_bytes(), 1);
  std::atomic<bool> stop{false};
  std::thread receiver([&] {
    while (!stop) turn(*decode, [&] { return !stop; });
  });
  Outcomes outcomes;
  const auto start = clock.now();
  for (std::size_t i = 0; i < 50; ++i) {
    prefill->push(push_of(ticket, 0, first_block(ticket), i % 2 == 0 ? 64 : 1,
                          std::span(bytes).first((i % 2 == 0 ? 64 : 1) * layout.block_bytes())),
                  outcomes.recorder());
    while (outcomes.total() <= i && clock.now() < start + 20s)
      turn(*prefill, [&] { return outcomes.total() <= i; });
  }
  stop = true;
  receiver.join();
  EXPECT_EQ(outcomes.ok, 50U);
  EXPECT_LT(clock.now() - start,
            4s);  // one lost wake-up costs a second; the last sleep of the receiver is one
}

TEST_P(Ucx, DestroyingTheSenderFailsWhatIsUnderWay) {
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

TEST_P(Ucx, DestroyingTheReceiverEndsEveryWriteAndFailsTheSender) {
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
TEST_P(Ucx, ADevicesBytesAreTheOwnersAgainAtTheDeadlineAndNotBefore) {
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
  while (outcomes.total() == 0 && clock.now() < push.deadline + 10s) prefill->progress();
  EXPECT_GE(clock.now(), push.deadline);
  EXPECT_EQ(outcomes.failed, 1U);
  push.deadline = clock.now() + 60s;  // and at the end, when nobody gets them next
  prefill->push(push, outcomes.recorder());
  prefill->progress();
  prefill.reset();
  EXPECT_EQ(outcomes.failed, 2U);
  EXPECT_LT(clock.now(), push.deadline - 30s);
}

TEST_P(Ucx, ADevicesMemoryAllowsNoChecksum) {
  EXPECT_THROW(UcxTransport(config_for(GetParam()), clock, std::nullopt, KvMemory::kDevice),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Transports, Ucx, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });

TEST(UcxConfig, NamesWhatIsWrong) {
  const auto message = [](UcxConfig config) -> std::string {
    try {
      config.validate();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  UcxConfig config;
  EXPECT_EQ(message(config), "");
  config.transport = "carrier pigeon";
  EXPECT_NE(message(config).find("carrier pigeon"), std::string::npos);
  config = {};
  config.transport = "tcp";
  config.require_transport = "rdma";
  EXPECT_NE(message(config).find("require_transport"), std::string::npos);
  config = {};
  config.max_in_flight = 0;
  EXPECT_NE(message(config).find("max_in_flight"), std::string::npos);
}

// With a device it starts, without one it says what there is instead.
TEST(UcxConfig, AskingForRdmaIsRefusedAtStartWhereThereIsNone) {
  const SteadyClock clock;
  UcxConfig config;
  config.transport = "auto";
  config.require_transport = "rdma";
  try {
    const UcxTransport transport(config, clock);
    EXPECT_TRUE(std::filesystem::exists("/sys/class/infiniband")) << "it started without any RDMA device";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("require_transport is 'rdma', but this machine offers only"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("tcp"), std::string::npos) << e.what();
  }
}

// UCX alone would start: nobody could reach such a worker, and every request to it would fail.
TEST(UcxConfig, ADeviceThatDoesNotExistIsRefusedAtStartWithThoseThatDo) {
  const SteadyClock clock;
  UcxConfig config;
  for (const char* transport : {"auto", "tcp"}) {
    config.transport = transport;
    for (const char* devices : {"nope0", "lo,nope0"}) {
      config.net_devices = devices;
      try {
        const UcxTransport started(config, clock);
        ADD_FAILURE() << "started with " << devices;
      } catch (const ConfigError& e) {
        const std::string what = e.what();
        EXPECT_NE(what.find("ucx.net_devices: there is no device 'nope0'"), std::string::npos) << what;
        EXPECT_NE(what.find("lo"), std::string::npos) << what;
      }
    }
    for (const char* devices : {"lo", "all"}) {
      config.net_devices = devices;
      EXPECT_NO_THROW(UcxTransport(config, clock)) << devices;
    }
  }
}

TEST(UcxInfo, NetworkDevicesAreToldFromMemory) {
  EXPECT_EQ(ucx_network_devices({"self/memory0", "tcp/eth0", "posix/memory", "rc_mlx5/mlx5_0:1",
                                 "ud_mlx5/mlx5_0:1", "cuda_copy/cuda"}),
            (std::vector<std::string>{"eth0", "mlx5_0:1"}));
}

}  // namespace
}  // namespace lynx
