#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/net/control_link.h"
#include "tests/common/net/loop_thread.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

// A router as a worker sees it: proves, welcomes, and notes what it is told.
class FakeRouter {
 public:
  FakeRouter(EventLoop& loop, const std::string& host, std::uint16_t port, std::string secret,
             bool welcomes = true)
      : loop_(loop),
        secret_(std::move(secret)),
        welcomes_(welcomes),
        listener_(loop, host, port,
                  [this](std::unique_ptr<FrameStream> stream) { meet(std::move(stream)); }) {}

  std::uint16_t port() const { return listener_.port(); }
  std::size_t tries() const { return tries_; }
  const std::vector<std::string>& registered() const { return registered_; }
  std::size_t heartbeats() const { return heartbeats_; }
  void ping() {
    capnp::MallocMessageBuilder message;
    message.initRoot<proto::Frame>().setPing();
    for (const auto& stream : streams_) stream->send(message);
  }

 private:
  void meet(std::unique_ptr<FrameStream> stream) {
    ++tries_;
    prove_link(loop_, std::move(stream), {"router", secret_}, kPatience,
               [this, alive = std::weak_ptr<bool>(alive_)](Result<std::unique_ptr<FrameStream>> proven,
                                                           const std::string&) {
                 if (alive.expired() || !proven) return;
                 FrameStream& s = *streams_.emplace_back(std::move(*proven));
                 s.start({[this, &s](proto::Frame::Reader frame) { on_frame(s, frame); }, nullptr});
               });
  }
  void on_frame(FrameStream& stream, proto::Frame::Reader frame) {
    if (frame.isHeartbeat()) ++heartbeats_;
    if (!frame.isRegister()) return;
    registered_.push_back(frame.getRegister().getWorker().cStr());
    if (!welcomes_) return;
    capnp::MallocMessageBuilder message;
    message.initRoot<proto::Frame>().setWelcome();
    stream.send(message);
  }

  EventLoop& loop_;
  const std::string secret_;
  const bool welcomes_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::vector<std::unique_ptr<FrameStream>> streams_;
  std::vector<std::string> registered_;
  std::size_t heartbeats_ = 0;
  std::size_t tries_ = 0;
  FrameListener listener_;
};

class RouterLinksTest : public ::testing::Test {
 protected:
  RouterLinksTest() {
    times_.refresh = milliseconds(20);
    times_.handshake = kPatience;
    times_.min_backoff = milliseconds(5);
    times_.max_backoff = milliseconds(20);
  }
  void link_to(std::vector<RouterAddress> routers, const std::string& secret = "s3cret") {
    RouterLinks::Callbacks callbacks;
    callbacks.fill_register = [](capnp::MallocMessageBuilder& message) {
      message.initRoot<proto::Frame>().initRegister().setWorker("decode-0");
    };
    callbacks.on_frame = [this](std::uint64_t link, proto::Frame::Reader) { frames_.push_back(link); };
    callbacks.on_up = [this](std::uint64_t link) { up_.push_back(link); };
    callbacks.on_down = [this](std::uint64_t link, const Error& error) {
      down_.push_back(link);
      errors_.push_back(error);
    };
    links_ = std::make_unique<RouterLinks>(loop_, ControlIdentity{"decode", secret}, std::move(routers),
                                           std::move(callbacks), times_);
  }
  // Pings for three times as long as a link waits in vain. False where the machine stood still for so long
  // that the link had reason to be tired of it.
  bool ping_in_time(FakeRouter& router) {
    auto last = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration longest{0};
    const auto look = [&] {
      const auto now = std::chrono::steady_clock::now();
      longest = std::max(longest, now - std::exchange(last, now));
    };
    const auto pinger = loop_.every(milliseconds(10), [&] {
      look();
      router.ping();
    });
    run_for(loop_, 3 * times_.silence);
    look();
    return longest < times_.silence / 2;
  }
  bool heartbeat(std::uint64_t link) {
    capnp::MallocMessageBuilder message;
    message.initRoot<proto::Frame>().initHeartbeat().setFreeBlocks(1);
    return links_->send(link, message);
  }

  EventLoop loop_;
  RouterLinks::Times times_;
  std::vector<std::uint64_t> up_, down_, frames_;
  std::vector<Error> errors_;
  std::unique_ptr<RouterLinks> links_;
};

TEST_F(RouterLinksTest, RegistersAndTalks) {
  FakeRouter router(loop_, "127.0.0.1", 0, "s3cret");
  link_to({{"127.0.0.1", router.port()}});
  EXPECT_EQ(links_->up(), 0u);
  ASSERT_TRUE(run_until(loop_, [&] { return up_.size() == 1; }));
  EXPECT_EQ(router.registered(), std::vector<std::string>{"decode-0"});
  EXPECT_TRUE(heartbeat(up_[0]));
  EXPECT_FALSE(heartbeat(up_[0] + 1));
  router.ping();
  EXPECT_TRUE(run_until(loop_, [&] { return router.heartbeats() == 1 && frames_.size() == 1; }));
  EXPECT_EQ(frames_[0], up_[0]);
}

TEST_F(RouterLinksTest, ARestartedRouterIsFoundAgain) {
  auto router = std::make_unique<FakeRouter>(loop_, "127.0.0.1", 0, "s3cret");
  const std::uint16_t port = router->port();
  link_to({{"127.0.0.1", port}});
  for (std::size_t restart = 1; restart <= 5; ++restart) {
    ASSERT_TRUE(run_until(loop_, [&] { return up_.size() == restart; }));
    router.reset();
    ASSERT_TRUE(run_until(loop_, [&] { return down_.size() == restart; }));
    EXPECT_EQ(links_->up(), 0u);
    EXPECT_FALSE(heartbeat(up_.back()));
    router = std::make_unique<FakeRouter>(loop_, "127.0.0.1", port, "s3cret");
  }
  ASSERT_TRUE(run_until(loop_, [&] { return up_.size() == 6; }));
  EXPECT_EQ(down_, std::vector(up_.begin(), up_.end() - 1)) << "each connection has a number of its own";
}

TEST_F(RouterLinksTest, AWorkerMayStartBeforeItsRouter) {
  auto router = std::make_unique<FakeRouter>(loop_, "127.0.0.1", 0, "s3cret");
  const std::uint16_t port = router->port();
  router.reset();
  link_to({{"127.0.0.1", port}});
  run_for(loop_, milliseconds(30));
  router = std::make_unique<FakeRouter>(loop_, "127.0.0.1", port, "s3cret");
  EXPECT_TRUE(run_until(loop_, [&] { return up_.size() == 1; }));
  EXPECT_TRUE(down_.empty()) << "a link that was never up does not go down";
}

TEST_F(RouterLinksTest, SeveralRoutersEachGetALink) {
  FakeRouter one(loop_, "127.0.0.1", 0, "s3cret");
  FakeRouter two(loop_, "127.0.0.2", one.port(), "s3cret");
  link_to({{"127.0.0.1", one.port()}, {"127.0.0.2", two.port()}, {"localhost", one.port()}});
  ASSERT_TRUE(run_until(loop_, [&] { return links_->up() == 2; }));
  run_for(loop_, milliseconds(60));  // the name is resolved again meanwhile
  EXPECT_EQ(links_->up(), 2u) << "two names of one router are one link";
  EXPECT_EQ(one.registered().size(), 1u);
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initHeartbeat();
  links_->broadcast(message);
  EXPECT_TRUE(run_until(loop_, [&] { return one.heartbeats() == 1 && two.heartbeats() == 1; }));
}

TEST_F(RouterLinksTest, AWrongSecretNeverComesUpAndIsTriedSlowly) {
  times_.max_backoff = std::chrono::hours(1);
  FakeRouter router(loop_, "127.0.0.1", 0, "other");
  link_to({{"127.0.0.1", router.port()}});
  ASSERT_TRUE(run_until(loop_, [&] { return !links_->last_problem().empty(); }));
  run_for(loop_, milliseconds(60));  // at its usual pace it would try a few times more
  EXPECT_EQ(links_->up(), 0u);
  EXPECT_TRUE(up_.empty());
  EXPECT_TRUE(router.registered().empty());
  EXPECT_EQ(router.tries(), 1u);
}

TEST_F(RouterLinksTest, ARouterThatDoesNotWelcomeIsTriedAgain) {
  times_.handshake = milliseconds(150);
  FakeRouter router(loop_, "127.0.0.1", 0, "s3cret", false);
  link_to({{"127.0.0.1", router.port()}});
  EXPECT_TRUE(run_until(loop_, [&] { return router.registered().size() >= 2; }));
  EXPECT_TRUE(up_.empty());
}

TEST_F(RouterLinksTest, ASilentRouterIsGivenUpUnlessItPings) {
  times_.silence = milliseconds(120);
  FakeRouter router(loop_, "127.0.0.1", 0, "s3cret");
  link_to({{"127.0.0.1", router.port()}});
  ASSERT_TRUE(run_until(loop_, [&] { return links_->up() == 1; }));
  while (!ping_in_time(router)) {
    down_.clear();
    ASSERT_TRUE(run_until(loop_, [&] { return links_->up() == 1; }));
  }
  EXPECT_TRUE(down_.empty());
  ASSERT_TRUE(run_until(loop_, [&] { return !down_.empty(); }));
  EXPECT_EQ(errors_.back().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(RouterLinksTest, NamesThatDoNotResolveAreNoEnd) {
  FakeRouter router(loop_, "127.0.0.1", 0, "s3cret");
  link_to({{"no-such-host.invalid", 1}, {"localhost", router.port()}});
  EXPECT_TRUE(run_until(loop_, [&] { return links_->up() == 1; }));
}

TEST_F(RouterLinksTest, MayBeDestroyedInAnyPhaseAndInsideACallback) {
  FakeRouter router(loop_, "127.0.0.1", 0, "s3cret");
  for (int turns = 0; turns < 12; ++turns) {
    link_to({{"localhost", router.port()}});
    run_for(loop_, milliseconds(turns / 3));
    links_.reset();
  }
  RouterLinks::Callbacks callbacks;
  bool gone = false;
  callbacks.on_up = [&](std::uint64_t) {
    links_.reset();
    gone = true;
  };
  links_ = std::make_unique<RouterLinks>(loop_, ControlIdentity{"decode", "s3cret"},
                                         std::vector<RouterAddress>{{"127.0.0.1", router.port()}}, callbacks,
                                         times_);
  EXPECT_TRUE(run_until(loop_, [&] { return gone; }));
}

}  // namespace
}  // namespace lynx
