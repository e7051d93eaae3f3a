#include "common/net/frame_stream.h"

#include <gtest/gtest.h>

#include "tests/common/net/loop_thread.h"
#include "tests/common/net/raw_client.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

void fill_busy(capnp::MallocMessageBuilder& message, std::uint64_t request,
               const std::string& reason = "full") {
  auto busy = message.initRoot<proto::Frame>().initBusy();
  busy.setRequest(request);
  busy.setReason(reason);
}

// A listener, and whatever connects to it.
class FrameStreamTest : public ::testing::Test {
 protected:
  void accept_with(FrameStream::Callbacks callbacks) {
    listener_ = std::make_unique<FrameListener>(
        loop_, "127.0.0.1", 0, [this, callbacks = std::move(callbacks)](std::unique_ptr<FrameStream> stream) {
          accepted_.push_back(std::move(stream));
          if (callbacks.on_frame || callbacks.on_close) accepted_.back()->start(callbacks);
        });
  }
  FrameStream::Callbacks record() {
    return {[this](proto::Frame::Reader frame) { got_.push_back(frame.getBusy().getRequest()); },
            [this](const Error& e) { errors_.push_back(e); }};
  }
  std::unique_ptr<FrameStream> connect(const std::string& host = "127.0.0.1") {
    std::unique_ptr<FrameStream> stream;
    const auto handle = connect_frames(loop_, host, listener_->port(), kPatience,
                                       [&](Result<std::unique_ptr<FrameStream>> s) {
                                         ASSERT_TRUE(s.ok()) << s.error().message;
                                         stream = std::move(*s);
                                       });
    EXPECT_TRUE(run_until(loop_, [&] { return stream != nullptr; }));
    return stream;
  }
  // What the acceptor says about these bytes from a stranger.
  Error error_after(std::string_view bytes, bool close = false) {
    errors_.clear();
    accept_with(record());
    RawClient client(listener_->port());
    client.send(bytes);
    if (close) client.close();
    EXPECT_TRUE(run_until(loop_, [&] { return !errors_.empty(); }));
    return errors_.empty() ? Error{} : errors_[0];
  }

  EventLoop loop_;
  std::unique_ptr<FrameListener> listener_;
  std::vector<std::unique_ptr<FrameStream>> accepted_;
  std::vector<std::uint64_t> got_;
  std::vector<Error> errors_;
};

std::string framed(std::uint32_t words, std::string_view payload) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(words >> shift & 0xff);
  return out.append(payload);
}

std::string busy_bytes(std::uint64_t request) {
  capnp::MallocMessageBuilder message;
  fill_busy(message, request);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return framed(static_cast<std::uint32_t>(words.size()),
                {reinterpret_cast<const char*>(bytes.begin()), bytes.size()});
}

TEST_F(FrameStreamTest, FramesArriveInOrderBothWays) {
  accept_with(record());
  const auto client = connect("localhost");
  EXPECT_EQ(client->peer(), "127.0.0.1:" + std::to_string(listener_->port()));
  std::vector<std::string> answers;
  client->start(
      {[&](proto::Frame::Reader frame) { answers.push_back(frame.getBusy().getReason().cStr()); }, nullptr});
  for (std::uint64_t i = 0; i < 1000; ++i) {
    capnp::MallocMessageBuilder message;
    fill_busy(message, i);
    EXPECT_TRUE(client->send(message));
  }
  ASSERT_TRUE(run_until(loop_, [&] { return got_.size() == 1000; }));
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(got_[i], i);
  capnp::MallocMessageBuilder large;
  fill_busy(large, 1, std::string(5 << 20, 'r'));
  EXPECT_TRUE(accepted_[0]->send(large));
  ASSERT_TRUE(run_until(loop_, [&] { return answers.size() == 1; }));
  EXPECT_EQ(answers[0].size(), 5u << 20);
}

TEST_F(FrameStreamTest, BytesMayComeOneByOne) {
  accept_with(record());
  RawClient client(listener_->port());
  for (const char c : busy_bytes(7)) {
    client.send({&c, 1});
    run_for(loop_, milliseconds(0));
  }
  EXPECT_TRUE(run_until(loop_, [&] { return got_.size() == 1; }));
}

TEST_F(FrameStreamTest, WhatCameBeforeTheCallbacksWaitsForThem) {
  accept_with({});
  auto client = connect();
  capnp::MallocMessageBuilder message;
  fill_busy(message, 1);
  client->send(message);
  ASSERT_TRUE(run_until(loop_, [&] { return accepted_.size() == 1; }));
  client.reset();
  run_for(loop_, milliseconds(5));
  accepted_[0]->start(record());
  EXPECT_TRUE(got_.empty()) << "never inside start()";
  EXPECT_TRUE(run_until(loop_, [&] { return got_.size() == 1 && errors_.size() == 1; }))
      << "and so does the end";
}

TEST_F(FrameStreamTest, CallbacksMayBeExchangedBetweenTwoFrames) {
  std::vector<std::uint64_t> first;
  accept_with({[&](proto::Frame::Reader frame) {
                 first.push_back(frame.getBusy().getRequest());
                 accepted_[0]->start({});
               },
               nullptr});
  RawClient client(listener_->port());
  client.send(busy_bytes(1) + busy_bytes(2) + busy_bytes(3));
  ASSERT_TRUE(run_until(loop_, [&] { return first.size() == 1; }));
  run_for(loop_, milliseconds(5));
  accepted_[0]->start(record());
  EXPECT_TRUE(run_until(loop_, [&] { return got_.size() == 2; }));
  EXPECT_EQ(first.size(), 1u);
}

TEST_F(FrameStreamTest, AStreamMayEndItselfInItsCallback) {
  int frames = 0;
  accept_with({[&](proto::Frame::Reader) {
                 ++frames;
                 accepted_.clear();
               },
               [&](const Error&) { FAIL() << "our own close is silent"; }});
  RawClient client(listener_->port());
  client.send(busy_bytes(1) + busy_bytes(2));
  ASSERT_TRUE(run_until(loop_, [&] { return frames == 1; }));
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(frames, 1);
}

TEST_F(FrameStreamTest, TheEndOfThePeerIsReportedOnce) {
  EXPECT_EQ(error_after(busy_bytes(1), true).code, ErrorCode::kUnavailable);
  EXPECT_EQ(got_.size(), 1u);
  EXPECT_EQ(error_after(busy_bytes(1).substr(0, 10), true).code, ErrorCode::kUnavailable)
      << "in the middle of a frame";
  capnp::MallocMessageBuilder message;
  fill_busy(message, 1);
  EXPECT_FALSE(accepted_.back()->send(message));
  run_for(loop_, milliseconds(5));
  EXPECT_EQ(errors_.size(), 1u);
}

TEST_F(FrameStreamTest, LengthsAreNotTrusted) {
  for (const std::uint32_t words :
       {0u, static_cast<std::uint32_t>(kMaxFrameBytes / 8 + 1), 0x80000000u, 0xffffffffu})
    EXPECT_EQ(error_after(framed(words, "")).code, ErrorCode::kCorrupt) << words;
  EXPECT_EQ(error_after("GET / HTTP/1.1\r\n\r\n").code, ErrorCode::kCorrupt)
      << "someone took the port for another";
}

TEST_F(FrameStreamTest, BytesThatAreNoMessageCloseTheStream) {
  EXPECT_EQ(error_after(framed(2, std::string(16, '\xff'))).code, ErrorCode::kCorrupt) << "segment table";
  EXPECT_EQ(error_after(framed(2, std::string("\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0", 16))).code,
            ErrorCode::kCorrupt)
      << "a segment longer than the frame";
  // The pointer to the Busy struct (after the count, the segment table, the root pointer and the frame's data
  // word): it is only followed inside the callback.
  std::string lazy = busy_bytes(1);
  lazy.replace(4 + 8 + 8 + 8, 8, std::string(8, '\xff'));
  EXPECT_EQ(error_after(lazy).code, ErrorCode::kCorrupt);
}

TEST_F(FrameStreamTest, AMessageThatMakesItsReaderWalkTooFarIsCutOff) {
  errors_.clear();
  accept_with({[](proto::Frame::Reader frame) {
                 for (int i = 0; i < 1'000'000; ++i) (void)frame.getTokens().getItems();
               },
               [this](const Error& e) { errors_.push_back(e); }});
  const auto client = connect();
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initTokens().initItems(1000);
  client->send(message);
  ASSERT_TRUE(run_until(loop_, [&] { return !errors_.empty(); }));
  EXPECT_EQ(errors_[0].code, ErrorCode::kCorrupt);
}

TEST_F(FrameStreamTest, AStuckPeerEndsTheStreamAndATooLargeFrameIsRefused) {
  accept_with({});  // never reads
  const auto client = connect();
  client->start(record());
  capnp::MallocMessageBuilder too_large;
  fill_busy(too_large, 1, std::string(kMaxFrameBytes, 'x'));
  EXPECT_FALSE(client->send(too_large));
  EXPECT_EQ(client->bytes_waiting(), 0u);
  capnp::MallocMessageBuilder message;
  fill_busy(message, 1, std::string(kMaxFrameBytes - 1024, 'x'));
  int sent = 0;
  while (client->send(message) && sent < 100) {
    ++sent;
    run_for(loop_, milliseconds(1));
  }
  EXPECT_GE(sent, 4);
  EXPECT_LT(sent, 10);
  EXPECT_FALSE(client->send(message)) << "nothing goes out behind a frame that was left out";
  EXPECT_TRUE(errors_.empty()) << "never from inside send";
  ASSERT_TRUE(run_until(loop_, [&] { return !errors_.empty(); }));
  EXPECT_EQ(errors_[0].code, ErrorCode::kUnavailable);
  EXPECT_NE(errors_[0].message.find("MiB wait to be sent, the limit is 64"), std::string::npos)
      << errors_[0].message;
  EXPECT_EQ(client->bytes_waiting(), 0u) << "its memory is given back";
  run_for(loop_, milliseconds(5));
  EXPECT_EQ(errors_.size(), 1u);
}

TEST_F(FrameStreamTest, ConnectFailuresNameTheTarget) {
  accept_with({});
  const std::uint16_t port = listener_->port();
  listener_.reset();
  for (const std::string host : {"127.0.0.1", "no-such-host.invalid"}) {
    std::optional<Error> error;
    const auto handle =
        connect_frames(loop_, host, port, kPatience,
                       [&](const Result<std::unique_ptr<FrameStream>>& s) { error = s.error(); });
    ASSERT_TRUE(run_until(loop_, [&] { return error.has_value(); }));
    EXPECT_EQ(error->code, ErrorCode::kUnavailable);
    EXPECT_EQ(error->message.find("cannot connect to " + host + ":" + std::to_string(port) + ": "), 0u)
        << error->message;
  }
}

TEST_F(FrameStreamTest, ADroppedConnectStaysSilent) {
  accept_with({});
  auto handle = connect_frames(loop_, "localhost", listener_->port(), kPatience,
                               [](const Result<std::unique_ptr<FrameStream>>&) { FAIL(); });
  handle.reset();
  run_for(loop_, milliseconds(20));
}

}  // namespace
}  // namespace lynx
