// Two UCX transports in one process: what a prefill worker pushes with, and a decode worker that receives.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/transport/ucx_transport.h"
#include "tests/common/transport/push_fixtures.h"
#include "tests/support/patience.h"

namespace lynx::testing_kv {

inline constexpr std::uint64_t kIncarnation = 42;

// A receiver waits for a payload as long as it takes, unless a test is about payloads that stay away.
inline UcxConfig config_for(const std::string& transport,
                            std::chrono::milliseconds receive_timeout = kPatience) {
  UcxConfig config;
  config.transport = transport;
  config.require_transport = transport;
  config.checksum = true;
  config.receive_timeout = receive_timeout;
  if (transport == "tcp") config.net_devices = "lo";
  return config;
}

class UcxPair : public ::testing::TestWithParam<std::string> {
 protected:
  explicit UcxPair(std::chrono::milliseconds receives_within = kPatience) : receive_timeout(receives_within) {
    decode = make_decode();
  }

  std::unique_ptr<UcxTransport> make_decode() {
    return std::make_unique<UcxTransport>(config_for(GetParam(), receive_timeout), clock,
                                          KvReceiver{&sink, layout, kIncarnation});
  }
  LeaseTicket lease(std::uint32_t blocks) {
    return *sink.ledger.lease(1, blocks, blocks, clock.now() + std::chrono::hours(1));
  }
  BlockId first_block(const LeaseTicket& ticket) { return sink.ledger.find(ticket.id)->blocks.front(); }

  KvPush push_of(const LeaseTicket& ticket, std::uint32_t layer, BlockId first, std::uint32_t blocks,
                 std::span<const std::byte> payload) {
    return {{"decode-0", kIncarnation, decode->address()},
            {ticket, layout.fingerprint(), layer, first, blocks, std::nullopt},
            payload,
            clock.now() + kPatience};
  }
  // Progress on both sides until everything has ended; false when it never does.
  bool settle(const Outcomes& outcomes, std::size_t total) {
    const auto give_up = clock.now() + kPatience;
    while (outcomes.total() < total && clock.now() < give_up) {
      prefill->progress();
      if (decode) decode->progress();
    }
    return outcomes.total() == total;
  }
  bool writes_end() {
    const auto give_up = clock.now() + kPatience;
    while (sink.begun != sink.ended && clock.now() < give_up) decode->progress();
    return sink.begun == sink.ended;
  }
  // Pushes 4 MB pieces until at least one is half way.
  void push_until_under_way(const LeaseTicket& ticket, std::span<const std::byte> payload, Outcomes& outcomes,
                            int count) {
    for (int i = 0; i < count; ++i)
      prefill->push(push_of(ticket, 0, first_block(ticket), 1024, payload), outcomes.recorder());
    const auto give_up = clock.now() + kPatience;
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

  const std::chrono::milliseconds receive_timeout;
  SteadyClock clock;
  PageLayout layout = small_layout(9000);
  PoolSink sink{layout, clock};
  std::unique_ptr<UcxTransport> decode;
  std::unique_ptr<UcxTransport> prefill = std::make_unique<UcxTransport>(config_for(GetParam()), clock);
};

}  // namespace lynx::testing_kv
