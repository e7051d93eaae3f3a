// A whole worker process in one test: real threads, sockets and frames; a fake model and a router that is a
// few lines.
#include <gtest/gtest.h>

#include <future>

#include "common/net/frame_stream.h"
#include "common/net/http_client.h"
#include "common/transport/loopback.h"
#include "services/decode/decode_service.h"
#include "services/worker/worker_host.h"
#include "tests/services/engine/fake_model.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Welcomes every worker and keeps what it heard.
class StubRouter {
 public:
  explicit StubRouter(EventLoop& loop)
      : loop_(loop), listener_(loop, "127.0.0.1", 0, [this](std::unique_ptr<FrameStream> stream) {
          prove_link(loop_, std::move(stream), {"router", ""}, kPatience,
                     [this](Result<std::unique_ptr<FrameStream>> proven, const std::string&) {
                       if (proven) accept(std::move(*proven));
                     });
        }) {}

  std::uint16_t port() const { return listener_.port(); }
  void send(capnp::MessageBuilder& message) { stream_->send(message); }
  void drop() { stream_.reset(); }

  std::string refusal;  // instead of a welcome
  std::string worker;
  std::uint64_t incarnation = 0;
  bool draining = false;
  int heartbeats = 0;
  std::uint64_t leased = 0;
  std::string busy;

 private:
  void accept(std::unique_ptr<FrameStream> stream) {
    stream_ = std::move(stream);
    stream_->start({[this](proto::Frame::Reader frame) { hear(frame); }, [](const Error&) {}});
  }
  void hear(proto::Frame::Reader frame) {
    if (frame.isRegister()) {
      worker = frame.getRegister().getWorker().cStr();
      incarnation = frame.getRegister().getIncarnation();
      capnp::MallocMessageBuilder message;
      if (refusal.empty()) {
        message.initRoot<proto::Frame>().setWelcome();
      } else {
        message.initRoot<proto::Frame>().initRefused().setMessage(refusal.c_str());
      }
      stream_->send(message);
    } else if (frame.isHeartbeat()) {
      ++heartbeats;
      draining = frame.getHeartbeat().getDraining();
    } else if (frame.isReserved()) {
      leased = frame.getReserved().getLease().getId();
    } else if (frame.isBusy()) {
      busy = frame.getBusy().getReason().cStr();
    }
  }

  EventLoop& loop_;
  FrameListener listener_;
  std::unique_ptr<FrameStream> stream_;
};

void reserve(StubRouter& router, std::uint64_t request) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initReserve();
  out.setRequest(request);
  out.initTokens(1).set(0, 3);
  out.initSampling().setMaxTokens(5);
  out.setDeadlineMs(60'000);
  router.send(message);
}

class WorkerHostTest : public ::testing::Test {
 protected:
  WorkerSetup setup(EngineLoop::LoadModel load) {
    WorkerSetup out;
    out.service = "decode";
    out.config.worker_name = "decode-0";
    out.config.routers = {"127.0.0.1:" + std::to_string(router.port())};
    out.config.heartbeat = milliseconds(20);
    out.config.shutdown_grace = seconds(600);
    out.layout = FakeModel::layout(16);
    out.max_batch = 4;
    out.load = std::move(load);
    out.make_role = [this](const RoleContext& context) {
      auto service = std::make_unique<DecodeService>(DecodeSettings{}, context.parts, context.registry);
      const KvReceiver receiver{service.get(), context.parts.cache.layout(), context.incarnation};
      auto transport = std::make_unique<LoopbackTransport>(network, clock, receiver);
      return WorkerRole{std::move(service), std::move(transport)};
    };
    return out;
  }

  // Turns the loop until the condition holds; false when it never does.
  bool turn_until(const std::function<bool()>& holds) {
    bool held = false;
    const auto poll = loop.every(milliseconds(2), [&] {
      held = held || holds();
      if (held) loop.stop();
    });
    const auto give_up = loop.after(kPatience, [&] { loop.stop(); });
    loop.run();
    return held;
  }

  HttpReply ask(std::uint16_t port, const std::string& page) {
    HttpClient client(loop, "127.0.0.1", port);
    std::optional<HttpReply> got;
    HttpCall call;
    call.target = page;
    const auto handle = client.send(
        call, nullptr, [&](const Result<HttpReply>& reply) { got = reply.ok() ? *reply : HttpReply{}; });
    turn_until([&] { return got.has_value(); });
    return got.value_or(HttpReply{});
  }
  int status_of(std::uint16_t port, const std::string& page) { return ask(port, page).status; }

  EventLoop loop;
  LoopbackNetwork network;
  SteadyClock clock;
  StubRouter router{loop};
};

// Field report 17: three probes with three meanings.
TEST_F(WorkerHostTest, LivesWhileLoadingAndIsReadyWithModelAndRouter) {
  std::promise<void> may_load;
  WorkerHost host(loop, setup([&] {
                    may_load.get_future().wait();
                    return std::make_unique<FakeModel>();
                  }));
  EXPECT_EQ(status_of(host.http_port(), "/health/live"), 200);
  const HttpReply starting = ask(host.http_port(), "/health/startup");
  EXPECT_EQ(starting.status, 503);
  EXPECT_NE(starting.body.find("the model is being loaded"), std::string::npos) << starting.body;
  EXPECT_EQ(status_of(host.http_port(), "/health/ready"), 503);
  EXPECT_EQ(status_of(host.http_port(), "/metrics"), 200);
  EXPECT_EQ(status_of(host.http_port(), "/debug/kv"), 200);
  EXPECT_EQ(status_of(host.http_port(), "/version"), 200);
  EXPECT_EQ(router.worker, "");
  may_load.set_value();
  ASSERT_TRUE(turn_until([&] { return router.heartbeats > 1; }));
  EXPECT_EQ(router.worker, "decode-0");
  EXPECT_GT(router.incarnation, 0U);
  EXPECT_EQ(status_of(host.http_port(), "/health/startup"), 200);
  EXPECT_EQ(status_of(host.http_port(), "/health/ready"), 200);
  EXPECT_EQ(status_of(host.http_port(), "/nothing"), 404);
}

// Field reports 7 and 17.
// Started and live, but not ready: without a router no work can come. No restart would help, more time might.
TEST_F(WorkerHostTest, WithoutARouterItIsStartedButNotReady) {
  router.refusal = "decode worker 'decode-0' has model 1, but prefill worker 'p' has model 2";
  WorkerHost host(loop, setup([] { return std::make_unique<FakeModel>(); }));
  ASSERT_TRUE(turn_until([&] { return !router.worker.empty(); }));
  HttpReply ready;
  const auto give_up = clock.now() + kPatience;
  while (ready.body.find("refused our registration") == std::string::npos && clock.now() < give_up)
    ready = ask(host.http_port(), "/health/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("has model 1, but prefill worker 'p' has model 2"), std::string::npos)
      << ready.body;
  EXPECT_EQ(status_of(host.http_port(), "/health/startup"), 200);
  EXPECT_EQ(status_of(host.http_port(), "/health/live"), 200);
}

TEST_F(WorkerHostTest, AModelThatDoesNotLoadEndsTheProcessWithAnError) {
  WorkerHost host(loop, setup([]() -> std::unique_ptr<Model> {
                    throw std::runtime_error("config.json: cannot be read");
                  }));
  EXPECT_EQ(host.run(), 1);
  host.drain();  // told to go meanwhile
  EXPECT_EQ(host.run(), 1);
}

TEST_F(WorkerHostTest, ASecretThatCannotBeReadIsToldBeforeTheModelIsLoaded) {
  bool loads = false;
  WorkerSetup wrong = setup([&] {
    loads = true;
    return std::make_unique<FakeModel>();
  });
  wrong.config.secret_file = "/nonexistent";
  EXPECT_THROW(WorkerHost(loop, std::move(wrong)), ConfigError);
  EXPECT_FALSE(loads);
}

// A model may load for minutes, and whoever asks it to go does not wait for that.
TEST_F(WorkerHostTest, ToldToGoWhileItLoadsItGoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        WorkerHost host(loop, setup([]() -> std::unique_ptr<Model> {
                          std::promise<void>().get_future().wait();
                          return nullptr;
                        }));
        host.drain();
        host.run();
        std::abort();  // it waited
      },
      ::testing::ExitedWithCode(0), "");
}

// A kernel that never ends gives no error: the worker notices, and goes, so that its streams go on elsewhere.
TEST_F(WorkerHostTest, AnEngineThatHangsEndsTheProcessWithAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        FakeModelOptions hangs;
        hangs.on_layer = [](std::uint32_t) { std::promise<void>().get_future().wait(); };
        WorkerSetup busy = setup([&] { return std::make_unique<FakeModel>(hangs); });
        busy.engine_silence = milliseconds(200);
        busy.make_role = [make = busy.make_role](const RoleContext& context) {
          Sequence sequence;
          sequence.tokens = {1};
          sequence.prompt_tokens = 1;
          sequence.blocks = {0};
          sequence.deadline = Clock::time_point::max();
          context.parts.submit(AdmitSequence{std::move(sequence)});
          return make(context);
        };
        WorkerHost host(loop, std::move(busy));
        std::exit(host.run() + 10);  // it never comes to that
      },
      ::testing::ExitedWithCode(1), "");
}

TEST_F(WorkerHostTest, ADrainKeepsWhatItHasAndRefusesTheRest) {
  WorkerHost host(loop, setup([] { return std::make_unique<FakeModel>(); }));
  ASSERT_TRUE(turn_until([&] { return router.heartbeats > 0; }));
  reserve(router, 1);
  ASSERT_TRUE(turn_until([&] { return router.leased != 0; }));
  host.drain();
  ASSERT_TRUE(turn_until([&] { return router.draining; }));
  EXPECT_EQ(status_of(host.http_port(), "/health/ready"), 503);
  EXPECT_EQ(status_of(host.http_port(), "/health/live"), 200);
  reserve(router, 2);
  ASSERT_TRUE(turn_until([&] { return router.busy == "draining"; }));
}

TEST_F(WorkerHostTest, TheGracePeriodEndsADrain) {
  WorkerSetup hurried = setup([] { return std::make_unique<FakeModel>(); });
  hurried.config.shutdown_grace = milliseconds(200);
  WorkerHost host(loop, std::move(hurried));
  ASSERT_TRUE(turn_until([&] { return router.heartbeats > 0; }));
  reserve(router, 1);
  ASSERT_TRUE(turn_until([&] { return router.leased != 0; }));
  host.drain();
  EXPECT_EQ(host.run(), 0);  // the lease whose KV never comes ends with it
}

TEST_F(WorkerHostTest, AnIdleWorkerStopsAtOnce) {
  WorkerHost host(loop, setup([] { return std::make_unique<FakeModel>(); }));
  ASSERT_TRUE(turn_until([&] { return router.heartbeats > 0; }));
  host.drain();
  EXPECT_EQ(host.run(), 0);
}

TEST_F(WorkerHostTest, ALostRouterTakesItsLeasesAlong) {
  WorkerHost host(loop, setup([] { return std::make_unique<FakeModel>(); }));
  ASSERT_TRUE(turn_until([&] { return router.heartbeats > 0; }));
  reserve(router, 1);
  ASSERT_TRUE(turn_until([&] { return router.leased != 0; }));
  router.drop();
  host.drain();
  EXPECT_EQ(host.run(), 0);  // long before the grace period: nothing is held any more
}

}  // namespace
}  // namespace lynx::testing
