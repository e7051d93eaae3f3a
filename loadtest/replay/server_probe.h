// Waits until a server is ready to serve, and asks it for the name of its model. Loop thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/net/event_loop.h"
#include "common/net/http_client.h"

namespace lynx {

class ServerProbe {
 public:
  using Done = std::function<void(Result<std::string> model)>;

  // done() once, within `patience`: the id of the first model of /v1/models after /health/ready said 200 (404
  // counts too: servers that have no such page), or the last thing that went wrong.
  ServerProbe(EventLoop& loop, HttpClient& client, std::string api_key, std::chrono::milliseconds patience,
              Done done);

 private:
  void ask(const std::string& path, std::function<void(const HttpReply&)> use);
  void ask_ready();
  void ask_models();
  void again(std::string problem);
  void finish(Result<std::string> result);

  EventLoop& loop_;
  HttpClient& client_;
  const std::string api_key_;
  Done done_;
  std::string problem_ = "no answer";
  std::unique_ptr<HttpCallHandle> call_;
  std::unique_ptr<Timer> deadline_, retry_;
};

}  // namespace lynx
