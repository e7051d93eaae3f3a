// Two transports in one process, over TCP and over shared memory.
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/common/transport/ucx_pair.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;
using testing_kv::Outcomes;

class Ucx : public testing_kv::UcxPair {};

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

// One turn of an event loop: handles what there is, then sleeps until something comes. wanted() is asked in
// between. False when nothing came: of a lost wake-up nobody hears.
template <typename Wanted>
bool turn(UcxTransport& transport, int end, Wanted wanted) {
  while (transport.progress() > 0) {
  }
  if (!wanted() || !transport.arm()) return true;
  pollfd fds[]{{transport.event_fd(), POLLIN, 0}, {end, POLLIN, 0}};
  return poll(fds, 2, std::chrono::milliseconds(kPatience).count()) != 0;
}

TEST_P(Ucx, TheEventDescriptorWakesBothSides) {
  const LeaseTicket ticket = lease(64);
  const auto bytes = testing_kv::random_bytes(64 * layout.block_bytes(), 1);
  int end[2];  // readable when the receiver may go
  ASSERT_EQ(::pipe(end), 0);
  std::atomic<bool> stop{false};
  bool woken = true;
  std::thread receiver([&] {
    while (!stop && woken) woken = turn(*decode, end[0], [&] { return !stop; });
  });
  Outcomes outcomes;
  bool heard = true;
  for (std::size_t i = 0; i < 50; ++i) {
    prefill->push(push_of(ticket, 0, first_block(ticket), i % 2 == 0 ? 64 : 1,
                          std::span(bytes).first((i % 2 == 0 ? 64 : 1) * layout.block_bytes())),
                  outcomes.recorder());
    while (outcomes.total() <= i && heard) heard = turn(*prefill, -1, [&] { return outcomes.total() <= i; });
  }
  stop = true;
  EXPECT_EQ(::write(end[1], "x", 1), 1);
  receiver.join();
  ::close(end[0]);
  ::close(end[1]);
  EXPECT_TRUE(heard && woken) << "a wake-up was lost";
  EXPECT_EQ(outcomes.ok, 50U);
}

INSTANTIATE_TEST_SUITE_P(Transports, Ucx, testing::Values("tcp", "shm"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lynx
