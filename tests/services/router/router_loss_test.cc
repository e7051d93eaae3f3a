// The router when a side goes: workers that die or fall silent under a stream, clients that hang up, no pair.
#include <gtest/gtest.h>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

TEST(RouterService, AKilledPrefillWorkerIsReplacedBeforeTheFirstToken) {
  RouterRig rig;
  StubWorker::Hooks stuck;
  stuck.on_prefill = [](proto::Prefill::Reader) { return true; };
  StubWorker& doomed = rig.add(proto::Role::PREFILL, "p0", nullptr, stuck);
  rig.add(proto::Role::DECODE, "d");
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(hello(4, true));
  rig.until([&] { return doomed.holding() == 1; });
  rig.add(proto::Role::PREFILL, "p1");
  rig.until([&] { return rig.router->dispatcher().workers().find("p1") != nullptr; });
  rig.kill(doomed);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abcd");
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AKilledDecodeWorkerCostsAPauseInTheStream) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t index) { return index >= 5; };  // stands still there
  const auto tells = [](StubOptions& options) {
    options.receipt = [](std::uint32_t) {
      return StepReceipt{.assignments = 8, .remapped = 2, .router_mass = 1, .batch = 1};
    };
  };
  StubWorker& doomed = rig.add(proto::Role::DECODE, "d0", tells, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(hello_with_receipt(26, true));
  rig.until([&] { return reply.events.size() == 5; });
  rig.add(proto::Role::DECODE, "d1", tells);
  rig.kill(doomed);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abcdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(reply.events.back()["usage"]["completion_tokens"], 26);
  EXPECT_EQ(reply.events.back()["usage"]["lynx"]["steps"], 24) << "two tokens are prefill's";
  EXPECT_EQ(reply.events.back()["usage"]["lynx"]["remapped_share"], 0.25);
  EXPECT_TRUE(reply.done_event);
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AFrozenDecodeWorkerIsFoundByItsSilence) {
  RouterRig rig([](RouterConfig& config) { config.heartbeat_timeout = milliseconds(300); });
  rig.add_pair();
  rig.script(std::string(400, 'a'));
  const auto& reply = rig.post(hello(400, true));
  rig.until([&] { return reply.events.size() > 3; });
  rig.add(proto::Role::DECODE, "d2");
  rig.fleet.decode.at("d")->freeze();
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), std::string(400, 'a'));
}

// Field report 5.
TEST(RouterService, AClientThatHangsUpFreesEverythingInEveryPhase) {
  enum Phase { kQueued, kReserving, kPrefilling, kDecoding };
  for (const Phase phase : {kQueued, kReserving, kPrefilling, kDecoding}) {
    SCOPED_TRACE(phase);
    RouterRig rig;
    StubWorker::Hooks decode_hooks;
    StubWorker::Hooks prefill_hooks;
    if (phase == kReserving) decode_hooks.on_reserve = [](proto::Reserve::Reader) { return true; };
    if (phase == kPrefilling) prefill_hooks.on_prefill = [](proto::Prefill::Reader) { return true; };
    StubWorker& prefill = rig.add(proto::Role::PREFILL, "p", nullptr, prefill_hooks);
    StubWorker* decode = nullptr;
    decode_hooks.on_token = [](std::uint64_t, std::uint32_t index) { return index > 3; };
    if (phase == kQueued)
      decode_hooks.on_reserve = [&](proto::Reserve::Reader reserve) {
        decode->send_busy(reserve.getRequest(), 5000);
        return true;
      };
    decode = &rig.add(proto::Role::DECODE, "d", nullptr, decode_hooks);
    rig.until([&] { return rig.router->dispatcher().ready(); });
    auto& reply = rig.post(hello(20, true));
    const auto& dispatcher = rig.router->dispatcher();
    rig.until([&] {
      switch (phase) {
        case kQueued:
          return dispatcher.queued() == 1;
        case kReserving:
          return decode->holding() == 1;
        case kPrefilling:
          return prefill.holding() == 1;
        case kDecoding:
          return reply.events.size() == 4;
      }
      return false;
    });
    rig.hang_up(reply);
    rig.until([&] { return rig.all_idle(); });
  }
}

// Field report 7.
TEST(RouterService, WithoutAFittingPairTheAnswerIs503AtOnce) {
  RouterRig rig;
  bool queued = false;
  const auto until_over = [&](const ApiExchange& reply) {
    rig.until([&] {
      queued |= rig.router->dispatcher().queued() > 0;
      return reply.over;
    });
  };
  const auto& nobody = rig.post(hello(4));
  until_over(nobody);
  EXPECT_EQ(nobody.status, 503);
  const auto& not_ready = rig.get("/health/ready");
  const auto& live = rig.get("/health/live");
  rig.until([&] { return not_ready.over && live.over; });
  EXPECT_EQ(not_ready.status, 503);
  EXPECT_EQ(live.status, 200) << "alive, though not ready";

  rig.add(proto::Role::PREFILL, "p", [](StubOptions& options) { options.kv_fingerprint = 0xA; });
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) { options.kv_fingerprint = 0xB; });
  const auto refused = [&] {
    return rig.router->dispatcher().why_not_ready().find("refused") != std::string::npos;
  };
  rig.until(refused);
  const auto& misfit = rig.post(hello(4));
  until_over(misfit);
  EXPECT_EQ(misfit.status, 503);
  EXPECT_NE(misfit.body.find("000000000000000a"), std::string::npos) << misfit.body;
  EXPECT_NE(misfit.body.find("000000000000000b"), std::string::npos);
  EXPECT_FALSE(queued);
}

}  // namespace
}  // namespace lynx::testing
