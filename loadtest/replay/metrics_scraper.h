// Fetches /metrics of several workers at once. Loop thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/event_loop.h"
#include "common/net/http_client.h"
#include "loadtest/replay/endpoint.h"

namespace lynx {

class MetricsScraper {
 public:
  MetricsScraper(EventLoop& loop, const std::vector<Endpoint>& workers);

  // One text per worker, in order, or why it could not be had. done() once, within the timeout. One scrape at
  // a time.
  using Done = std::function<void(std::vector<Result<std::string>>)>;
  void scrape(std::chrono::milliseconds timeout, Done done);
  bool busy() const { return done_ != nullptr; }

 private:
  void take(std::size_t worker, const Result<HttpReply>& reply);

  EventLoop& loop_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<HttpClient>> clients_;
  std::vector<std::unique_ptr<HttpCallHandle>> calls_;
  std::vector<Result<std::string>> texts_;
  std::size_t waiting_ = 0;
  Done done_;
};

}  // namespace lynx
