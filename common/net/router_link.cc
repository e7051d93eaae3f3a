#include "common/net/router_link.h"

#include <algorithm>
#include <utility>

#include "common/core/log.h"

namespace lynx {

using std::chrono::milliseconds;

milliseconds Backoff::next() {
  const milliseconds delay = std::exchange(next_, std::min(next_ * 2, most_));
  return milliseconds(std::uniform_int_distribution<std::int64_t>(delay.count() / 2, delay.count())(random_));
}

RouterLink::RouterLink(std::shared_ptr<LinkContext> context, TcpEndpoint endpoint)
    : context_(std::move(context)),
      endpoint_(std::move(endpoint)),
      backoff_(context_->times.min_backoff, context_->times.max_backoff) {}

void RouterLink::connect() {
  connecting_ = connect_frames(context_->loop, endpoint_.address, endpoint_.port, context_->times.handshake,
                               [this](Result<std::unique_ptr<FrameStream>> stream) {
                                 if (!stream) return fail(stream.error());
                                 prove(std::move(*stream));
                               });
}

void RouterLink::stop() {
  connecting_.reset();
  timer_.reset();
  stream_.reset();
  id_ = 0;
}

void RouterLink::prove(std::unique_ptr<FrameStream> stream) {
  prove_link(context_->loop, std::move(stream), context_->self, context_->times.handshake,
             [weak = weak_from_this()](Result<std::unique_ptr<FrameStream>> proven, const std::string&) {
               const auto link = weak.lock();
               if (link == nullptr || !link->context_->alive) return;
               if (!proven) return link->fail(proven.error());
               link->enlist(std::move(*proven));
             });
}

void RouterLink::enlist(std::unique_ptr<FrameStream> stream) {
  stream_ = std::move(stream);
  stream_->start(
      {[this](proto::Frame::Reader frame) { on_frame(frame); }, [this](const Error& e) { fail(e); }});
  capnp::MallocMessageBuilder message;
  context_->callbacks.fill_register(message);
  stream_->send(message);
  timer_ = context_->loop.after(context_->times.handshake, [this] {
    fail({ErrorCode::kDeadlineExceeded, endpoint_.text() + " did not welcome us in time"});
  });
}

void RouterLink::on_frame(proto::Frame::Reader frame) {
  const auto self = shared_from_this();
  last_heard_ = std::chrono::steady_clock::now();
  if (up()) return context_->callbacks.on_frame(id_, frame);
  if (frame.isWelcome()) return come_up();
  if (frame.isRefused()) {
    backoff_.slow();
    const std::string reason = frame.getRefused().getMessage().cStr();
    fail({ErrorCode::kIncompatible, endpoint_.text() + " refused our registration: " + reason});
  }
}

void RouterLink::come_up() {
  id_ = ++context_->last_id;
  backoff_.reset();
  last_problem_.clear();
  log::info("registered with router {}", endpoint_.text());
  timer_ = context_->loop.every(context_->times.silence / 4, [this] { check_silence(); });
  context_->callbacks.on_up(id_);
}

void RouterLink::check_silence() {
  if (std::chrono::steady_clock::now() - last_heard_ < context_->times.silence) return;
  fail({ErrorCode::kDeadlineExceeded, endpoint_.text() + " has gone silent"});
}

void RouterLink::fail(const Error& error) {
  const auto self = shared_from_this();
  if (error.code == ErrorCode::kPermission || error.code == ErrorCode::kIncompatible) backoff_.slow();
  if (std::exchange(last_problem_, error.message) != error.message)  // the same again says nothing new
    log::warn("router link: {}", error.message);
  const std::uint64_t lost = id_;
  stop();
  timer_ = context_->loop.after(backoff_.next(), [this] {
    if (wanted_) connect();
  });
  if (lost != 0) context_->callbacks.on_down(lost, error);
}

}  // namespace lynx
