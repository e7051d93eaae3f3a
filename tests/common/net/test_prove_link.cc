#include <gtest/gtest.h>

#include <optional>

#include "common/net/cluster_secret.h"
#include "common/net/control_link.h"
#include "tests/common/net/loop_thread.h"
#include "tests/common/net/raw_client.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

struct Outcome {
  std::unique_ptr<FrameStream> stream;
  std::optional<Error> error;
  std::string peer_service;
  bool done() const { return stream != nullptr || error.has_value(); }
};

class ProveLinkTest : public ::testing::Test {
 protected:
  ProveLinkTest()
      : listener_(loop_, "127.0.0.1", 0,
                  [this](std::unique_ptr<FrameStream> stream) { on_accept_(std::move(stream)); }) {}

  void prove(std::unique_ptr<FrameStream> stream, const ControlIdentity& self, Outcome& outcome,
             milliseconds timeout = kPatience) {
    prove_link(loop_, std::move(stream), self, timeout,
               [&outcome](Result<std::unique_ptr<FrameStream>> proven, std::string service) {
                 EXPECT_FALSE(outcome.done()) << "exactly once";
                 outcome.peer_service = std::move(service);
                 if (proven) outcome.stream = std::move(*proven);
                 if (!proven) outcome.error = proven.error();
               });
  }
  std::unique_ptr<FrameStream> connect() {
    std::unique_ptr<FrameStream> stream;
    const auto handle =
        connect_frames(loop_, "127.0.0.1", listener_.port(), kPatience,
                       [&](Result<std::unique_ptr<FrameStream>> s) { stream = std::move(*s); });
    EXPECT_TRUE(run_until(loop_, [&] { return stream != nullptr; }));
    return stream;
  }
  void meet(const ControlIdentity& server, const ControlIdentity& client) {
    on_accept_ = [this, server](std::unique_ptr<FrameStream> s) { prove(std::move(s), server, server_); };
    prove(connect(), client, client_);
    EXPECT_TRUE(run_until(loop_, [&] { return server_.done() && client_.done(); }));
  }
  // A router that meets whatever `stranger` sends once it has our hello.
  Error router_meets(const std::function<void(FrameStream&, proto::Frame::Reader)>& stranger) {
    server_ = {};
    on_accept_ = [this](std::unique_ptr<FrameStream> s) {
      prove(std::move(s), {"router", "s3cret"}, server_);
    };
    const auto stream = connect();
    stream->start({[&](proto::Frame::Reader frame) { stranger(*stream, frame); }, nullptr});
    EXPECT_TRUE(run_until(loop_, [&] { return server_.done(); }));
    EXPECT_EQ(server_.stream, nullptr);
    return server_.error.value_or(Error{});
  }

  EventLoop loop_;
  std::function<void(std::unique_ptr<FrameStream>)> on_accept_;
  FrameListener listener_;
  Outcome server_;
  Outcome client_;
};

void send_hello(FrameStream& stream, const std::string& service, std::string nonce,
                std::uint32_t version = 1) {
  capnp::MallocMessageBuilder message;
  auto hello = message.initRoot<proto::Frame>().initHello();
  hello.setVersion(version);
  hello.setService(service);
  hello.setNonce(kj::arrayPtr(reinterpret_cast<const kj::byte*>(nonce.data()), nonce.size()));
  stream.send(message);
}

void send_proof(FrameStream& stream, kj::ArrayPtr<const kj::byte> hmac) {
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initProof().setHmac(hmac);
  stream.send(message);
}

std::string text_of(capnp::Data::Reader data) {
  return {reinterpret_cast<const char*>(data.begin()), data.size()};
}

TEST_F(ProveLinkTest, BothSidesLearnWhoTheOtherIsAndFramesFollow) {
  meet({"router", "s3cret"}, {"decode", "s3cret"});
  ASSERT_TRUE(server_.stream && client_.stream);
  EXPECT_EQ(server_.peer_service, "decode");
  EXPECT_EQ(client_.peer_service, "router");
  capnp::MallocMessageBuilder ping;
  ping.initRoot<proto::Frame>().setPing();
  server_.stream->send(ping);
  bool got = false;
  client_.stream->start({[&](proto::Frame::Reader frame) { got = frame.isPing(); }, nullptr});
  EXPECT_TRUE(run_until(loop_, [&] { return got; }));
}

TEST_F(ProveLinkTest, OnLoopbackTheSecretMayBeEmpty) {
  meet({"router", ""}, {"prefill", ""});
  EXPECT_TRUE(server_.stream && client_.stream);
}

TEST_F(ProveLinkTest, DifferentSecretsAreRefusedOnBothSides) {
  for (const std::string wrong : {"other", "", "s3cret "}) {
    server_ = {};
    client_ = {};
    meet({"router", "s3cret"}, {"decode", wrong});
    ASSERT_TRUE(server_.error && client_.error) << wrong;
    EXPECT_EQ(server_.error->code, ErrorCode::kPermission);
    EXPECT_EQ(client_.error->code, ErrorCode::kPermission) << client_.error->message;
    EXPECT_NE(server_.error->message.find("the cluster secrets differ"), std::string::npos);
  }
}

TEST_F(ProveLinkTest, AnotherVersionIsRefusedWithBothVersions) {
  std::string told;
  const Error error = router_meets([&](FrameStream& stream, proto::Frame::Reader frame) {
    if (frame.isHello()) send_hello(stream, "decode", std::string(16, 'n'), 99);
    if (frame.isRefused()) told = frame.getRefused().getMessage().cStr();
  });
  EXPECT_EQ(error.code, ErrorCode::kIncompatible);
  EXPECT_NE(error.message.find("control protocol version 99 met 1"), std::string::npos) << error.message;
}

TEST_F(ProveLinkTest, TheRefusalReachesThePeerBeforeTheClose) {
  on_accept_ = [this](std::unique_ptr<FrameStream> s) { prove(std::move(s), {"router", "s3cret"}, server_); };
  const auto stream = connect();
  std::string told;
  bool closed = false;
  stream->start({[&](proto::Frame::Reader frame) {
                   if (frame.isRefused()) told = frame.getRefused().getMessage().cStr();
                 },
                 [&](const Error&) { closed = true; }});
  send_hello(*stream, "decode", std::string(16, 'n'), 7);
  ASSERT_TRUE(run_until(loop_, [&] { return closed; }));
  EXPECT_EQ(told, "control protocol version 7 met 1");
}

TEST_F(ProveLinkTest, ASilentPeerIsClosedAtTheTimeout) {
  on_accept_ = [this](std::unique_ptr<FrameStream> s) {
    prove(std::move(s), {"router", "s3cret"}, server_, milliseconds(30));
  };
  RawClient silent(listener_.port());
  ASSERT_TRUE(run_until(loop_, [&] { return server_.done(); }));
  EXPECT_EQ(server_.error->code, ErrorCode::kDeadlineExceeded);
  silent.read_to_end();
  EXPECT_TRUE(silent.at_end());
}

TEST_F(ProveLinkTest, OneWhoEchoesEverythingIsNotLetIn) {
  const Error error = router_meets([](FrameStream& stream, proto::Frame::Reader frame) {
    capnp::MallocMessageBuilder copy;
    copy.setRoot(frame);
    stream.send(copy);
  });
  EXPECT_EQ(error.code, ErrorCode::kPermission);
}

TEST_F(ProveLinkTest, AProofIsBoundToItsDirection) {
  // The attacker calls itself a decode worker with the router's own nonce, and returns the router's proof.
  const Error error = router_meets([](FrameStream& stream, proto::Frame::Reader frame) {
    if (frame.isHello()) send_hello(stream, "decode", text_of(frame.getHello().getNonce()));
    if (frame.isProof()) send_proof(stream, frame.getProof().getHmac());
  });
  EXPECT_EQ(error.code, ErrorCode::kPermission);
}

TEST_F(ProveLinkTest, AProofOfAnotherConnectionDoesNotFit) {
  const std::string nonce(16, 'n');
  const Error error = router_meets([&](FrameStream& stream, proto::Frame::Reader frame) {
    if (!frame.isHello()) return;
    send_hello(stream, "decode", nonce);
    Nonce mine{};
    std::copy(nonce.begin(), nonce.end(), mine.begin());
    const Mac stale = lynx::prove("s3cret", "decode", Nonce{}, mine);  // right secret, yesterday's nonce
    send_proof(stream, kj::arrayPtr(stale.data(), stale.size()));
  });
  EXPECT_EQ(error.code, ErrorCode::kPermission);
}

TEST_F(ProveLinkTest, WhatIsOutOfOrderOrOfTheWrongSizeIsRefused) {
  using Stranger = std::function<void(FrameStream&, proto::Frame::Reader)>;
  const std::vector<Stranger> strangers{
      [](FrameStream& s, proto::Frame::Reader) { send_hello(s, "decode", "short"); },
      [](FrameStream& s, proto::Frame::Reader) { send_hello(s, "decode", std::string(1000, 'n')); },
      [](FrameStream& s, proto::Frame::Reader) { send_hello(s, "bad\nname", std::string(16, 'n')); },
      [](FrameStream& s, proto::Frame::Reader) { send_hello(s, "", std::string(16, 'n')); },
      [](FrameStream& s, proto::Frame::Reader) { send_proof(s, {}); },
      [](FrameStream& s, proto::Frame::Reader) {
        send_hello(s, "decode", std::string(16, 'n'));
        send_hello(s, "decode", std::string(16, 'n'));
      },
      [](FrameStream& s, proto::Frame::Reader) {
        capnp::MallocMessageBuilder message;
        message.initRoot<proto::Frame>().initRegister();
        s.send(message);
      }};
  for (const auto& stranger : strangers) EXPECT_EQ(router_meets(stranger).code, ErrorCode::kCorrupt);
  EXPECT_EQ(router_meets([](FrameStream& s, proto::Frame::Reader frame) {
              if (frame.isHello()) send_hello(s, "decode", std::string(16, 'n'));
              if (frame.isProof()) send_proof(s, {});
            }).code,
            ErrorCode::kPermission)
      << "an empty proof";
}

TEST(ClusterSecret, TheProofDependsOnEveryInput) {
  const Nonce a{1};
  const Nonce b{2};
  const Mac mac = prove("secret", "router", a, b);
  const std::string_view bytes(reinterpret_cast<const char*>(mac.data()), mac.size());
  EXPECT_TRUE(equal(prove("secret", "router", a, b), bytes));
  EXPECT_FALSE(equal(prove("Secret", "router", a, b), bytes));
  EXPECT_FALSE(equal(prove("secret", "decode", a, b), bytes));
  EXPECT_FALSE(equal(prove("secret", "router", b, a), bytes));
  EXPECT_FALSE(equal(mac, bytes.substr(1)));
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace lynx
