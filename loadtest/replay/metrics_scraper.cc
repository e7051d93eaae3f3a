#include "loadtest/replay/metrics_scraper.h"

#include <utility>

#include "common/core/check.h"

namespace lynx {

MetricsScraper::MetricsScraper(EventLoop& loop, const std::vector<Endpoint>& workers) : loop_(loop) {
  for (const Endpoint& worker : workers) {
    names_.push_back(worker.text());
    clients_.push_back(std::make_unique<HttpClient>(loop, worker.host, worker.port));
  }
}

void MetricsScraper::scrape(std::chrono::milliseconds timeout, Done done) {
  LYNX_CHECK(!busy(), "one scrape at a time");
  done_ = std::move(done);
  calls_.clear();
  texts_.assign(names_.size(), Error{ErrorCode::kUnavailable, "no answer"});
  waiting_ = names_.size();
  if (waiting_ == 0) return loop_.post([this] { std::exchange(done_, nullptr)({}); });
  for (std::size_t i = 0; i < names_.size(); ++i)
    calls_.push_back(clients_[i]->send(
        {.method = "GET", .target = "/metrics", .headers = {}, .body = {}, .timeout = timeout}, nullptr,
        [this, i](const Result<HttpReply>& reply) { take(i, reply); }));
}

void MetricsScraper::take(std::size_t worker, const Result<HttpReply>& reply) {
  if (!reply)
    texts_[worker] = Error{reply.error().code, names_[worker] + ": " + reply.error().message};
  else if (reply->status != 200)
    texts_[worker] =
        Error{ErrorCode::kUnavailable, names_[worker] + ": HTTP status " + std::to_string(reply->status)};
  else
    texts_[worker] = reply->body;
  if (--waiting_ == 0) std::exchange(done_, nullptr)(std::move(texts_));
}

}  // namespace lynx
