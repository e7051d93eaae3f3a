// The push of a layer runs while later layers compute: with a real engine thread and a real event loop, layer
// i+2 does not begin before the push of layer i has landed. A worker that pushed only at the end would never
// get there.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "common/net/event_loop.h"
#include "services/engine/engine_loop.h"
#include "tests/services/worker/pair_bench.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

// Which layers have landed, told by the IO thread and awaited by the engine thread.
class Landings {
 public:
  void landed(std::uint32_t layer, Clock::time_point at) {
    const std::lock_guard lock(mutex_);
    times_.push_back({layer, at});
    changed_.notify_all();
  }
  bool wait_for(std::uint32_t layer) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return std::any_of(times_.begin(), times_.end(), [&](const auto& t) { return t.first == layer; });
    });
  }
  std::vector<std::pair<std::uint32_t, Clock::time_point>> times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::uint32_t, Clock::time_point>> times_;
};

// A decode worker that only takes notes.
class NotingSink final : public KvSink {
 public:
  NotingSink(KvCache& cache, Landings& landings, const Clock& clock)
      : cache_(cache), landings_(landings), clock_(clock) {}
  Result<std::span<std::byte>> write_begin(const KvPushHeader& header) override {
    return cache_.run(header.layer, header.first_block, header.blocks);
  }
  void write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) override {
    if (bytes) landings_.landed(header.layer, clock_.now());
    with_token = with_token || header.first_token.has_value();
  }
  bool with_token = false;

 private:
  KvCache& cache_;
  Landings& landings_;
  const Clock& clock_;
};

TEST(Overlap, ALayerLandsWhileLaterLayersCompute) {
  Landings landings;
  bool overlapped = true;                       // engine thread
  std::vector<Clock::time_point> layer_begins;  // engine thread
  SteadyClock clock;
  FakeModelOptions options;
  options.layers = 6;
  options.on_layer = [&](std::uint32_t layer) {
    if (layer >= 2) overlapped = landings.wait_for(layer - 2) && overlapped;
    layer_begins.push_back(clock.now());
  };

  EventLoop loop;
  KvCache source(FakeModel::layout(16, options));
  KvCache target(FakeModel::layout(16, options));
  NotingSink sink(target, landings, clock);
  LoopbackNetwork network;
  LoopbackTransport decode(network, clock, KvReceiver{&sink, target.layout(), PairBench::kIncarnation});
  LoopbackTransport transport(network, clock);
  KvLedger ledger(16, 1);
  MetricsRegistry registry;
  WorkerMetrics worker_metrics(registry, "prefill");
  PrefillMetrics metrics(registry);
  EngineMetrics engine_metrics(registry);
  RecordingPort port;
  const FakeModel shape(options);
  EngineLoop* engine_loop = nullptr;
  PrefillService service({},
                         {shape.config(), source, ledger, clock, port, worker_metrics,
                          [&](EngineCommand command) { return engine_loop->submit(std::move(command)); }},
                         transport, metrics);
  EngineConfig config;
  config.report_layers = true;
  const auto take = [&] {
    for (EngineEvent& event : engine_loop->events()) {
      if (const auto* layer = std::get_if<LayerDone>(&event)) service.on_layer(*layer);
      if (auto* step = std::get_if<StepDone>(&event)) service.on_step(std::move(*step));
    }
    transport.progress();
  };
  EngineLoop engine(config, {[&] { return std::make_unique<FakeModel>(options); }, &source, &clock,
                             &engine_metrics, [&] { loop.post(take); }});
  engine_loop = &engine;

  capnp::MallocMessageBuilder message;
  auto frame = message.initRoot<proto::Frame>().initPrefill();
  frame.setRequest(1);
  auto tokens = frame.initTokens(20);
  for (unsigned i = 0; i < 20; ++i) tokens.set(i, i);
  frame.initSampling().setMaxTokens(4);
  frame.setDeadlineMs(3'600'000);
  auto lease = frame.initLease();
  lease.setDeadlineMs(3'600'000);
  auto blocks = lease.initBlocks(5);
  for (unsigned i = 0; i < 5; ++i) blocks.set(i, i);
  frame.setDecodeWorker("d");
  frame.setDecodeIncarnation(PairBench::kIncarnation);
  const std::string address = decode.address();
  frame.setKvAddress({reinterpret_cast<const capnp::byte*>(address.data()), address.size()});
  service.on_frame(1, message.getRoot<proto::Frame>().asReader());

  const auto done = loop.every(std::chrono::milliseconds(1), [&] {
    transport.progress();
    if (!port.handed_over.empty()) loop.stop();
  });
  const auto give_up = loop.after(kPatience, [&] { loop.stop(); });
  loop.run();

  ASSERT_EQ(port.handed_over.size(), 1U);
  EXPECT_TRUE(overlapped);
  EXPECT_TRUE(sink.with_token);
  ASSERT_EQ(layer_begins.size(), 6U);
  for (const auto& [layer, at] : landings.times()) {
    if (layer + 2 >= 6) continue;
    EXPECT_LT(at, layer_begins[layer + 2]) << "layer " << layer;
  }
  EXPECT_LT(port.handed_over[0].exposed_seconds, port.handed_over[0].transfer_seconds);
  EXPECT_TRUE(ledger.all_free());
}

}  // namespace
}  // namespace lynx::testing
