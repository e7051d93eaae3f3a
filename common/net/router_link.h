// One router of a worker: connect, prove, register, serve; after any failure back off and begin again.
// Internal to common/net. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "common/net/byte_stream.h"
#include "common/net/control_link.h"

namespace lynx {

// Doubles from the least to the most; the jitter keeps a fleet from knocking in step when a router comes
// back.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds least, std::chrono::milliseconds most)
      : least_(least), most_(most), next_(least) {}

  std::chrono::milliseconds next();
  void reset() { next_ = least_; }
  void slow() { next_ = most_; }

 private:
  const std::chrono::milliseconds least_;
  const std::chrono::milliseconds most_;
  std::chrono::milliseconds next_;
  std::minstd_rand random_{std::random_device()()};
};

// What the links of one worker share.
struct LinkContext {
  EventLoop& loop;
  ControlIdentity self;
  RouterLinks::Callbacks callbacks;
  RouterLinks::Times times;
  std::uint64_t last_id = 0;
  bool alive = true;
};

class RouterLink : public std::enable_shared_from_this<RouterLink> {
 public:
  RouterLink(std::shared_ptr<LinkContext> context, TcpEndpoint endpoint);

  void connect();
  bool send(capnp::MessageBuilder& message) { return up() && stream_->send(message); }
  bool up() const { return id_ != 0; }
  std::uint64_t id() const { return id_; }
  const std::string& last_problem() const { return last_problem_; }
  bool wanted() const { return wanted_; }
  void set_wanted(bool wanted) { wanted_ = wanted; }
  void stop();

 private:
  void prove(std::unique_ptr<FrameStream> stream);
  void enlist(std::unique_ptr<FrameStream> stream);
  void on_frame(proto::Frame::Reader frame);
  void come_up();
  void check_silence();
  void fail(const Error& error);

  std::shared_ptr<LinkContext> context_;
  const TcpEndpoint endpoint_;
  Backoff backoff_;
  std::unique_ptr<FrameConnect> connecting_;
  std::unique_ptr<FrameStream> stream_;
  std::unique_ptr<Timer> timer_;  // of the phase we are in: welcome, silence or back-off
  std::chrono::steady_clock::time_point last_heard_;
  std::uint64_t id_ = 0;  // 0 = not up
  bool wanted_ = true;
  std::string last_problem_;
};

}  // namespace lynx
