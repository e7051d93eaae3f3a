// Who gets in, who does not, and that the one who does not is told why.
#include "services/router/control_server.h"
#include "tests/support/patience.h"

#include <gtest/gtest.h>

#include <optional>

namespace lynx {
namespace {

using std::chrono::milliseconds;

// A worker's end, spoken by hand.
class HandWorker {
 public:
  HandWorker(EventLoop& loop, std::uint16_t port, const std::string& service, const std::string& secret)
      : connect_(connect_frames(loop, "127.0.0.1", port, kPatience,
                                [this, &loop, service, secret](Result<std::unique_ptr<FrameStream>> opened) {
                                  ASSERT_TRUE(opened.ok());
                                  prove_link(loop, std::move(opened).value(), {service, secret}, kPatience,
                                             [this](Result<std::unique_ptr<FrameStream>> link,
                                                    const std::string&) { joined(std::move(link)); });
                                })) {}

  void register_as(proto::Role role, const std::string& name) {
    capnp::MallocMessageBuilder message;
    auto out = message.initRoot<proto::Frame>().initRegister();
    out.setWorker(name.c_str());
    out.setRole(role);
    out.setIncarnation(1);
    stream->send(message);
  }
  void heartbeat() {
    capnp::MallocMessageBuilder message;
    message.initRoot<proto::Frame>().initHeartbeat();
    stream->send(message);
  }

  std::unique_ptr<FrameStream> stream;
  std::optional<Error> not_proven;
  bool welcome = false;
  std::string refused;
  bool closed = false;
  int pings = 0;

 private:
  void joined(Result<std::unique_ptr<FrameStream>> link) {
    if (!link) {
      not_proven = link.error();
      return;
    }
    stream = std::move(link).value();
    stream->start({[this](proto::Frame::Reader frame) {
                     if (frame.isWelcome()) welcome = true;
                     if (frame.isPing()) ++pings;
                     if (frame.isRefused()) refused = frame.getRefused().getMessage().cStr();
                   },
                   [this](const Error&) { closed = true; }});
  }
  std::unique_ptr<FrameConnect> connect_;
};

class ControlServerTest : public ::testing::Test {
 protected:
  explicit ControlServerTest(milliseconds join_timeout = kPatience)
      : server_(loop_, config(join_timeout), callbacks()) {}

  static ControlServerConfig config(milliseconds join_timeout) {
    ControlServerConfig out;
    out.secret = "ours";
    out.join_timeout = join_timeout;
    out.ping_period = milliseconds(20);
    return out;
  }
  ControlServer::Callbacks callbacks() {
    ControlServer::Callbacks out;
    out.may_register = [](const WorkerInfo& info) -> Status {
      if (info.name == "stranger") return {ErrorCode::kIncompatible, "strangers do not fit"};
      return {};
    };
    out.on_up = [this](WorkerId id, const WorkerInfo& info) { up_[info.name] = id; };
    out.on_frame = [this](WorkerId, proto::Frame::Reader frame) {
      heartbeats_ += frame.isHeartbeat() ? 1 : 0;
    };
    out.on_down = [this](WorkerId id, const std::string&) { down_.push_back(id); };
    return out;
  }
  void until(const std::function<bool()>& condition) {
    bool held = false;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const auto poll = loop_.every(milliseconds(1), [&] {
      held = condition();
      if (held || std::chrono::steady_clock::now() > end) loop_.stop();
    });
    loop_.run();
    EXPECT_TRUE(held) << "waited in vain";
  }
  std::unique_ptr<HandWorker> join(const std::string& service = "decode",
                                   const std::string& secret = "ours") {
    auto worker = std::make_unique<HandWorker>(loop_, server_.port(), service, secret);
    until([&] { return worker->stream != nullptr || worker->not_proven; });
    return worker;
  }

  EventLoop loop_;
  std::map<std::string, WorkerId> up_;
  std::vector<WorkerId> down_;
  int heartbeats_ = 0;
  ControlServer server_;
};

TEST_F(ControlServerTest, AWorkerRegistersSpeaksAndLeaves) {
  auto worker = join();
  worker->register_as(proto::Role::DECODE, "d");
  until([&] { return worker->welcome && up_.contains("d"); });
  worker->heartbeat();
  until([&] { return heartbeats_ == 1 && worker->pings >= 2; });
  worker.reset();
  until([&] { return down_.size() == 1; });
  EXPECT_EQ(down_[0], up_["d"]);
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().setPing();
  EXPECT_FALSE(server_.send(up_["d"], message));
}

TEST_F(ControlServerTest, AWrongSecretIsNotProven) {
  const auto worker = join("decode", "guess");
  EXPECT_TRUE(worker->not_proven);
  EXPECT_TRUE(up_.empty());
}

TEST_F(ControlServerTest, ARefusalSaysWhyAndCloses) {
  const auto worker = join();
  worker->register_as(proto::Role::DECODE, "stranger");
  until([&] { return worker->closed; });
  EXPECT_EQ(worker->refused, "strangers do not fit");
  EXPECT_FALSE(worker->welcome);
  EXPECT_TRUE(up_.empty());
  EXPECT_TRUE(down_.empty()) << "it was never up";
}

TEST_F(ControlServerTest, TheRoleMustBeTheOneThatWasProven) {
  const auto worker = join("decode");
  worker->register_as(proto::Role::PREFILL, "p");
  until([&] { return worker->closed; });
  EXPECT_NE(worker->refused.find("prefill"), std::string::npos) << worker->refused;
}

TEST_F(ControlServerTest, RegisterComesFirst) {
  const auto hasty = join();
  hasty->heartbeat();
  until([&] { return hasty->closed; });
  EXPECT_NE(hasty->refused.find("Register"), std::string::npos);
}

class ImpatientControlServer : public ControlServerTest {
 protected:
  ImpatientControlServer() : ControlServerTest(milliseconds(200)) {}
};

TEST_F(ImpatientControlServer, RegisterComesInTime) {
  auto silent = join();
  while (silent->stream == nullptr) silent = join();  // a slow machine has not even proven itself by then
  until([&] { return silent->closed; });
  EXPECT_NE(silent->refused.find("in time"), std::string::npos);
}

TEST_F(ControlServerTest, ClosingAServedLinkReportsItOnce) {
  const auto worker = join();
  worker->register_as(proto::Role::DECODE, "d");
  until([&] { return worker->welcome; });
  server_.close(up_["d"], {ErrorCode::kCancelled, "replaced"});
  until([&] { return worker->closed; });
  EXPECT_EQ(worker->refused, "replaced");
  EXPECT_EQ(down_, (std::vector<WorkerId>{up_["d"]}));
}

}  // namespace
}  // namespace lynx
