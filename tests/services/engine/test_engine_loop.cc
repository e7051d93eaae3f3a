#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "services/engine/engine_loop.h"
#include "services/engine/monolith.h"
#include "tests/services/engine/engine_bench.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

// Collects events of a real engine thread.
class LoopBench {
 public:
  explicit LoopBench(EngineLoop::LoadModel load)
      : cache(FakeModel::layout(64)),
        metrics(registry),
        loop({}, {std::move(load), &cache, &clock, &metrics, [this] { wake(); }}) {}

  template <typename Event>
  std::optional<Event> wait_for() {
    std::unique_lock lock(mutex_);
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      for (EngineEvent& event : loop.events()) seen_.push_back(std::move(event));
      for (auto it = seen_.begin(); it != seen_.end(); ++it)
        if (auto* found = std::get_if<Event>(&*it)) {
          Event out = std::move(*found);
          seen_.erase(it);
          return out;
        }
      if (!ready_.wait_until(lock, give_up, [this] { return woken_; })) return std::nullopt;
      woken_ = false;
    }
  }

 private:
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    ready_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable ready_;
  bool woken_ = false;
  std::deque<EngineEvent> seen_;

 public:
  SteadyClock clock;
  KvCache cache;
  MetricsRegistry registry;
  EngineMetrics metrics;
  EngineLoop loop;
};

Sequence sequence(std::uint32_t max_tokens) {
  Sequence s;
  s.id = 5;
  s.tokens = {1, 2, 3};
  s.prompt_tokens = 3;
  for (BlockId b = 0; b < 60; ++b) s.blocks.push_back(b);
  s.sampling.temperature = 0;
  s.sampling.max_tokens = max_tokens;
  s.sampling.ignore_eos = true;
  s.deadline = Clock::time_point::max();
  return s;
}

TEST(EngineLoop, LoadsStepsAndReports) {
  LoopBench bench([] { return std::make_unique<FakeModel>(); });
  const auto ready = bench.wait_for<ModelReady>();
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->fingerprint, 0xFA4EU);
  ASSERT_TRUE(bench.loop.submit(AdmitSequence{sequence(20)}));
  std::size_t tokens = 0;
  while (tokens < 20) {
    const auto step = bench.wait_for<StepDone>();
    ASSERT_TRUE(step);
    tokens += step->tokens.size();
  }
}

TEST(EngineLoop, AModelThatDoesNotLoadIsReported) {
  LoopBench bench([]() -> std::unique_ptr<Model> { throw std::runtime_error("no such file"); });
  const auto failed = bench.wait_for<ModelFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->message, "no such file");
}

TEST(EngineLoop, ALostDeviceIsReported) {
  FakeModelOptions options;
  options.lost_token = 2;
  LoopBench bench([options] { return std::make_unique<FakeModel>(options); });
  ASSERT_TRUE(bench.wait_for<ModelReady>());
  ASSERT_TRUE(bench.loop.submit(AdmitSequence{sequence(20)}));
  const auto failed = bench.wait_for<ModelFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->message, "the device is gone");
}

TEST(EngineLoop, StopsInTheMiddleOfWork) {
  LoopBench bench([] { return std::make_unique<FakeModel>(); });
  ASSERT_TRUE(bench.wait_for<ModelReady>());
  ASSERT_TRUE(bench.loop.submit(AdmitSequence{sequence(200)}));
  ASSERT_TRUE(bench.wait_for<StepDone>());
}  // the destructor must return, with events that nobody drains

TEST(Monolith, RunsMoreThanThePoolHoldsAndReportsEachOutcome) {
  FakeModel model;
  KvCache cache(FakeModel::layout(12));
  std::vector<MonolithRequest> requests;
  for (TokenId i = 0; i < 20; ++i) {
    MonolithRequest request;
    for (TokenId t = 0; t <= i % 7; ++t) request.prompt.push_back((i * 5 + t) % 101);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 1 + i % 9;
    requests.push_back(request);
  }
  requests[3].prompt.clear();             // malformed
  requests[4].sampling.max_tokens = 200;  // more than the pool can ever hold
  const auto outputs = run_monolith(model, cache, {{4, 6}, {}}, requests);
  ASSERT_EQ(outputs.size(), requests.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i == 3 || i == 4) {
      EXPECT_FALSE(outputs[i].status.ok());
      continue;
    }
    EXPECT_TRUE(outputs[i].status.ok());
    KvCache own(FakeModel::layout(12));
    const auto alone = run_monolith(model, own, {{1, 512}, {}}, std::span(&requests[i], 1));
    ASSERT_EQ(outputs[i].tokens.size(), alone[0].tokens.size());
    for (std::size_t t = 0; t < outputs[i].tokens.size(); ++t)
      EXPECT_EQ(outputs[i].tokens[t].token, alone[0].tokens[t].token) << "request " << i;
  }
}

}  // namespace
}  // namespace lynx::testing
