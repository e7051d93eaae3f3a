#include "services/router/control_server.h"

#include <kj/exception.h>

#include <utility>
#include <vector>

#include "common/core/log.h"

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kLinger{200};  // for a refusal to reach the worker before the link closes

}  // namespace

ControlServer::ControlServer(EventLoop& loop, ControlServerConfig config, Callbacks callbacks)
    : loop_(loop),
      config_(std::move(config)),
      callbacks_(std::move(callbacks)),
      listener_(loop, config_.host, config_.port,
                [this](std::unique_ptr<FrameStream> stream) { accepted(std::move(stream)); }),
      pinger_(loop.every(config_.ping_period, [this] { ping_all(); })) {}

ControlServer::~ControlServer() = default;

void ControlServer::accepted(std::unique_ptr<FrameStream> stream) {
  if (links_.size() + joining_ >= config_.max_links)
    return log::warn("control: too many links, {} is dropped", stream->peer());
  const std::string peer = stream->peer();
  ++joining_;
  prove_link(loop_, std::move(stream), {"router", config_.secret}, config_.join_timeout,
             [this, peer, alive = std::weak_ptr(alive_)](Result<std::unique_ptr<FrameStream>> link,
                                                         std::string service) {
               if (alive.expired()) return;
               --joining_;
               if (!link) return warn("did not join", peer, link.error().message);
               proven(std::move(link).value(), std::move(service));
             });
}

// A worker that is refused comes again every second or two, each time from another port: that is one thing.
void ControlServer::warn(const char* what, const std::string& peer, std::string why) {
  const std::string host = peer.substr(0, peer.rfind(':'));
  if (why.starts_with(peer + ": ")) why.erase(0, peer.size() + 2);  // what streams say begins with it
  if (why.starts_with(peer + " ")) why.erase(0, peer.size() + 1);
  const auto times = warned_.tell(host + " " + what + ": " + why, SteadyClock().now());
  if (times) log::warn("control: {} {}: {}{}", peer, what, why, times_text(*times));
}

void ControlServer::proven(std::unique_ptr<FrameStream> stream, std::string service) {
  const WorkerId id = next_id_++;
  Link& link = links_[id];
  link.service = std::move(service);
  link.stream = std::move(stream);
  link.timer = loop_.after(config_.join_timeout, [this, id] {
    refuse(id, {ErrorCode::kDeadlineExceeded, "no registration came in time"});
  });
  link.stream->start({[this, id](proto::Frame::Reader frame) { on_frame(id, frame); },
                      [this, id](const Error& error) { dropped(id, error.message); }});
}

void ControlServer::on_frame(WorkerId id, proto::Frame::Reader frame) {
  const auto at = links_.find(id);
  if (at == links_.end() || at->second.phase == Phase::kClosing) return;
  try {
    if (at->second.phase == Phase::kServing) return callbacks_.on_frame(id, frame);
    if (frame.which() == proto::Frame::REGISTER) return register_worker(id, frame);
    refuse(id, {ErrorCode::kCorrupt, "the first frame after the proof must be Register"});
  } catch (const kj::Exception& e) {
    refuse(id, {ErrorCode::kCorrupt, std::string("malformed frame: ") + e.getDescription().cStr()});
  }
}

void ControlServer::register_worker(WorkerId id, proto::Frame::Reader frame) {
  WorkerInfo info = read_register(frame.getRegister());
  Link& link = links_.at(id);
  if (link.service != to_string(info.role))
    return refuse(id,
                  {ErrorCode::kPermission, "a link proven as '" + link.service + "' cannot register as '" +
                                               std::string(to_string(info.role)) + "'"});
  if (const Status status = callbacks_.may_register(info); !status) return refuse(id, status.error());
  link.phase = Phase::kServing;
  link.timer.reset();
  capnp::MallocMessageBuilder welcome;
  welcome.initRoot<proto::Frame>().setWelcome();
  if (!link.stream->send(welcome)) return refuse(id, {ErrorCode::kUnavailable, "the link is down"});
  callbacks_.on_up(id, std::move(info));
}

void ControlServer::refuse(WorkerId id, const Error& why) {
  const auto at = links_.find(id);
  if (at == links_.end() || at->second.phase == Phase::kClosing) return;
  Link& link = at->second;
  warn("is refused", link.stream->peer(), why.message);
  const bool served = std::exchange(link.phase, Phase::kClosing) == Phase::kServing;
  capnp::MallocMessageBuilder message;
  auto fault = message.initRoot<proto::Frame>().initRefused();
  fault.setCode(static_cast<proto::ErrorCode>(why.code));
  fault.setMessage(why.message.c_str());
  static_cast<void>(link.stream->send(message));  // a link that is down needs no reason
  // The timer that may have called this is replaced from the loop, not from within itself.
  loop_.post([this, id, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto closing = links_.find(id);
    if (closing != links_.end())
      closing->second.timer = loop_.after(kLinger, [this, id] { dropped(id, "refused"); });
  });
  if (served) callbacks_.on_down(id, why.message);
}

void ControlServer::close(WorkerId worker, const Error& why) { refuse(worker, why); }

void ControlServer::dropped(WorkerId id, const std::string& why) {
  const auto at = links_.find(id);
  if (at == links_.end()) return;
  const bool served = std::exchange(at->second.phase, Phase::kClosing) == Phase::kServing;
  // The stream may be the caller: it goes when the loop is back at the top.
  loop_.post([this, id, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) links_.erase(id);
  });
  if (served) callbacks_.on_down(id, why);
}

bool ControlServer::send(WorkerId worker, capnp::MessageBuilder& message) {
  const auto at = links_.find(worker);
  return at != links_.end() && at->second.phase == Phase::kServing && at->second.stream->send(message);
}

void ControlServer::ping_all() {
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().setPing();
  for (auto& [id, link] : links_)
    if (link.phase == Phase::kServing) static_cast<void>(link.stream->send(message));
}

}  // namespace lynx
