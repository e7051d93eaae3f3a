// An OpenAI completions server on a thread of its own that makes up tokens: what a load generator is measured
// against when the server must not be the limit, or must be as bad as a server can be.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "common/net/event_loop.h"
#include "common/net/http_server.h"

namespace lynx {

struct StubApiOptions {
  std::chrono::milliseconds first_token{0};  // after the request
  std::chrono::milliseconds step_time{10};   // between tokens
  std::chrono::milliseconds stall{0};        // every second the server does nothing at all for so long
  bool silent = false;                       // no request is ever answered
  int cpu = -1;                              // its thread stays on this CPU; -1 = anywhere
};

class StubApi {
 public:
  explicit StubApi(const StubApiOptions& options);  // listens on return
  ~StubApi();
  StubApi(const StubApi&) = delete;
  StubApi& operator=(const StubApi&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  struct Stream {
    std::shared_ptr<HttpResponder> out;
    std::uint32_t left = 0;
    std::chrono::steady_clock::time_point first;
  };
  void serve(std::promise<std::uint16_t>& port);
  void handle(const HttpRequest& request, std::shared_ptr<HttpResponder> out);
  void step();

  const StubApiOptions options_;
  EventLoop loop_;
  std::uint16_t port_ = 0;
  std::map<std::uint64_t, Stream> streams_;
  std::uint64_t next_ = 0;
  std::thread thread_;
};

// Keeps the calling thread on one CPU. False: the machine does not allow it.
bool pin_to_cpu(int cpu);

}  // namespace lynx
