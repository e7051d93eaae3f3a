#include "common/metrics/text_endpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/metrics/registry.h"
#include "common/net/http_client.h"
#include "tests/common/net/loop_thread.h"

namespace lynx {
namespace {

class TextEndpointTest : public ::testing::Test {
 protected:
  TextEndpointTest() {
    registry_.counter("requests_total", "Requests.").Increment();
    endpoint_.service = "decode";
    endpoint_.metrics = [this] { return registry_.serialize(); };
    endpoint_.started = [this] { return started_; };
    endpoint_.ready = [this] { return ready_; };
    endpoint_.json["/debug/kv"] = [] { return std::string(R"({"free":8})"); };
    server_ = std::make_unique<HttpServer>(loop_, HttpServerConfig{}, endpoint_.handler());
    client_ = std::make_unique<HttpClient>(loop_, "127.0.0.1", server_->port());
  }
  HttpReply ask(const std::string& target, const std::string& method = "GET") {
    HttpCall call;
    call.method = method;
    call.target = target;
    std::optional<HttpReply> reply;
    const auto handle =
        client_->send(call, nullptr, [&](Result<HttpReply> r) { reply = r ? *r : HttpReply{}; });
    EXPECT_TRUE(run_until(loop_, [&] { return reply.has_value(); }));
    return reply.value_or(HttpReply{});
  }

  EventLoop loop_;
  MetricsRegistry registry_;
  Status started_;
  Status ready_;
  TextEndpoint endpoint_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(TextEndpointTest, Metrics) {
  const HttpReply reply = ask("/metrics?x=y");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find("\nlynx_requests_total 1\n"), std::string::npos);
  const std::pair<std::string, std::string> type("content-type", "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(std::find(reply.headers.begin(), reply.headers.end(), type), reply.headers.end());
}

// Field report 17.
TEST_F(TextEndpointTest, StartupSaysWhatItIsBusyWithWhileItLives) {
  EXPECT_EQ(ask("/health/startup").status, 200);
  started_ = {ErrorCode::kUnavailable, "the model is being loaded"};
  const HttpReply reply = ask("/health/startup");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(nlohmann::json::parse(reply.body)["status"], "starting");
  EXPECT_EQ(nlohmann::json::parse(reply.body)["reason"], "the model is being loaded");
  EXPECT_EQ(ask("/health/live").status, 200);
}

TEST_F(TextEndpointTest, ReadinessSaysWhatIsMissingAndLivenessDoesNotCare) {
  EXPECT_EQ(ask("/health/ready").status, 200);
  ready_ = {ErrorCode::kUnavailable, "no \"router\" yet"};
  const HttpReply reply = ask("/health/ready");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(nlohmann::json::parse(reply.body)["reason"], "no \"router\" yet");
  EXPECT_EQ(ask("/health/live").status, 200);
}

TEST_F(TextEndpointTest, VersionAndDebugPages) {
  EXPECT_EQ(nlohmann::json::parse(ask("/version").body)["service"], "decode");
  EXPECT_EQ(ask("/debug/kv").body, R"({"free":8})");
}

TEST_F(TextEndpointTest, OtherPathsAndMethodsAreRefused) {
  EXPECT_EQ(ask("/metrics/").status, 404);
  EXPECT_EQ(nlohmann::json::parse(ask("/").body)["error"]["code"], "not_found");
  EXPECT_EQ(ask("/metrics", "POST").status, 405);
  EXPECT_EQ(ask("/metrics", "HEAD").status, 200);
}

}  // namespace
}  // namespace lynx
