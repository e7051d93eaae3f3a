// The router when there is more than it can take, or no more time: spread, refusals, deadlines, the drain.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Field report 11.
TEST(RouterService, ABurstOf28LandsEvenly) {
  for (const char* policy : {"round_robin", "least_loaded"}) {
    RouterRig rig([&](RouterConfig& config) { config.policy = policy; });
    std::vector<StubWorker*> workers;
    for (const char* name : {"p0", "p1", "p2"}) workers.push_back(&rig.add(proto::Role::PREFILL, name));
    for (const char* name : {"d0", "d1", "d2", "d3"}) workers.push_back(&rig.add(proto::Role::DECODE, name));
    rig.until([&] { return rig.router->dispatcher().workers().all().size() == 7; });
    std::vector<const ApiExchange*> replies;
    for (int i = 0; i < 28; ++i) replies.push_back(&rig.post(hello(2 + i % 20)));
    rig.until([&] { return std::all_of(replies.begin(), replies.end(), [](auto* r) { return r->over; }); });
    for (const std::size_t first : {0U, 3U}) {  // per role
      const auto last = first == 0 ? 3U : 7U;
      const auto less = [](const StubWorker* a, const StubWorker* b) { return a->served() < b->served(); };
      const auto [low, high] = std::minmax_element(workers.begin() + first, workers.begin() + last, less);
      EXPECT_LE(static_cast<double>((*high)->served()), 1.5 * static_cast<double>((*low)->served()))
          << policy;
    }
  }
}

// Field report 10.
TEST(RouterService, OverloadIs429WithRetryAfterAndNeverAHang) {
  RouterRig rig([](RouterConfig& config) {
    config.prefill_slots = 1;
    config.max_choices = 2;
    for (auto& slo_class : config.slo_classes) slo_class.queue_limit = 2;
  });
  StubWorker::Hooks stuck;
  stuck.on_prefill = [](proto::Prefill::Reader) { return true; };
  rig.add(proto::Role::PREFILL, "p", nullptr, stuck);
  rig.add(proto::Role::DECODE, "d");
  rig.until([&] { return rig.router->dispatcher().ready(); });
  rig.post(hello(4));
  rig.until([&] { return rig.router->dispatcher().live() == 1; });
  rig.post(hello(4));
  rig.post(hello(4));
  rig.until([&] { return rig.router->dispatcher().queued() == 2; });
  const auto& refused = rig.post(hello(4));
  rig.until_over(refused);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error_code(), "overloaded");
  const int wait = std::stoi(refused.headers.at("retry-after"));
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 60);
  json other = hello(4);
  other["slo_class"] = "batch";
  rig.post(other);
  rig.until([&] { return rig.router->dispatcher().queued() == 3; });
}

// Field report 10.
TEST(RouterService, DeadlinesEndRequestsBeforeAndAfterTheFirstToken) {
  RouterRig rig([](RouterConfig& config) {
    for (auto& slo_class : config.slo_classes) slo_class.deadline = milliseconds(150);
  });
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t) { return true; };
  rig.add(proto::Role::DECODE, "d", nullptr, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& whole = rig.post(hello(4));
  const ApiExchange* streamed = nullptr;
  do {  // on a machine that stands still it may come before the first token: then once more
    streamed = &rig.post(hello(4, true));
    rig.until([&] { return streamed->over; });
  } while (streamed->status == 504);
  rig.until_over(whole);
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.error_code(), "deadline_exceeded");
  EXPECT_EQ(streamed->status, 200);
  EXPECT_EQ(streamed->error_code(), "deadline_exceeded");
  EXPECT_TRUE(streamed->done_event);
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, DrainingFinishesWhatIsUnderWayAndRefusesTheRest) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  bool goes_on = false;
  StubWorker::Hooks waits;
  waits.on_token = [&](std::uint64_t, std::uint32_t index) { return index > 50 && !goes_on; };
  rig.add(proto::Role::DECODE, "d", nullptr, waits);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  rig.script(std::string(100, 'a'));
  const auto& running = rig.post(hello(100, true));
  rig.until([&] { return running.events.size() > 2; });
  bool stopped = false;
  rig.router->drain([&] { stopped = true; });
  const auto& refused = rig.post(hello(1));
  const auto& ready = rig.get("/health/ready");
  rig.until([&] { return refused.over && ready.over; });
  EXPECT_FALSE(stopped);
  goes_on = true;
  rig.until([&] { return stopped && running.over; });
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(running.text(), std::string(100, 'a'));
  EXPECT_TRUE(running.done_event);
}

TEST(RouterService, TheGracePeriodEndsADrain) {
  RouterRig rig([](RouterConfig& config) { config.shutdown_grace = milliseconds(100); });
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t) { return true; };
  rig.add(proto::Role::DECODE, "d", nullptr, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& endless = rig.post(hello(100, true));
  rig.until([&] { return endless.events.size() == 1; });
  bool stopped = false;
  rig.router->drain([&] { stopped = true; });
  rig.until([&] { return stopped && endless.over; });
  EXPECT_EQ(endless.error_code(), "draining");
}

}  // namespace
}  // namespace lynx::testing
