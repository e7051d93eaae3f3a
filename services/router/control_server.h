// The router's end of the control plane: accepts workers, takes each link through the proof of the cluster
// secret and the registration, then passes its frames on. A link that says something wrong is told why
// (Refused) and closed; nothing it does can stop the others. Loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/core/repeated.h"
#include "common/net/control_link.h"
#include "common/net/event_loop.h"
#include "services/router/request_flow.h"

namespace lynx {

struct ControlServerConfig {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string secret;
  std::chrono::milliseconds join_timeout{5000};  // from accept to Register
  std::chrono::milliseconds ping_period{1000};
  std::size_t max_links = 4096;
};

class ControlServer final : public WorkerSender {
 public:
  struct Callbacks {
    std::function<Status(const WorkerInfo&)> may_register;
    std::function<void(WorkerId, WorkerInfo)> on_up;  // Welcome has been sent
    std::function<void(WorkerId, proto::Frame::Reader)> on_frame;
    std::function<void(WorkerId, const std::string& why)> on_down;
  };
  // Throws std::runtime_error naming the address when it cannot listen.
  ControlServer(EventLoop& loop, ControlServerConfig config, Callbacks callbacks);
  ~ControlServer() override;

  bool send(WorkerId worker, capnp::MessageBuilder& message) override;
  void close(WorkerId worker, const Error& why);
  std::uint16_t port() const { return listener_.port(); }

 private:
  enum class Phase { kJoining, kServing, kClosing };
  struct Link {
    std::unique_ptr<FrameStream> stream;
    std::string service;  // proven: prefill or decode
    Phase phase = Phase::kJoining;
    std::unique_ptr<Timer> timer;  // kJoining: the join timeout; kClosing: lets the last frame leave
  };

  void accepted(std::unique_ptr<FrameStream> stream);
  void proven(std::unique_ptr<FrameStream> stream, std::string service);
  void on_frame(WorkerId id, proto::Frame::Reader frame);
  void register_worker(WorkerId id, proto::Frame::Reader frame);
  void refuse(WorkerId id, const Error& why);
  void dropped(WorkerId id, const std::string& why);
  void ping_all();
  void warn(const char* what, const std::string& peer, std::string why);

  EventLoop& loop_;
  const ControlServerConfig config_;
  const Callbacks callbacks_;
  std::map<WorkerId, Link> links_;
  std::size_t joining_ = 0;  // connections that have not proven themselves yet
  WorkerId next_id_ = 1;
  Repeated warned_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // what is posted or being proven may outlast this
  FrameListener listener_;
  std::unique_ptr<Timer> pinger_;
};

}  // namespace lynx
