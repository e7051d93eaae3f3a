#include "common/net/http_client.h"

#include <gtest/gtest.h>

#include "common/net/http_server.h"
#include "tests/common/net/loop_thread.h"
#include "tests/common/net/raw_server.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

HttpCall get(const std::string& target) {
  HttpCall call;
  call.target = target;
  return call;
}

class HttpClientTest : public ::testing::Test {
 protected:
  void serve(const HttpHandler& handler, HttpServerConfig config = {}) {
    server_ = std::make_unique<HttpServer>(loop_, config, handler);
    client_ = std::make_unique<HttpClient>(loop_, "127.0.0.1", server_->port());
  }
  // A server that answers with these bytes, whatever it is asked.
  void serve_raw(const std::string& bytes) {
    raw_ = std::make_unique<RawServer>(bytes);
    client_ = std::make_unique<HttpClient>(loop_, "127.0.0.1", raw_->port());
  }
  Result<HttpReply> call(HttpCall call, HttpClient::OnBody on_body = nullptr) {
    std::optional<Result<HttpReply>> reply;
    const auto handle = client_->send(std::move(call), std::move(on_body),
                                      [&](Result<HttpReply> r) { reply = std::move(r); });
    EXPECT_FALSE(reply.has_value()) << "never inside send()";
    EXPECT_TRUE(run_until(loop_, [&] { return reply.has_value(); }));
    return reply ? std::move(*reply) : Result<HttpReply>(ErrorCode::kInternal, "nothing came");
  }

  EventLoop loop_;
  std::unique_ptr<RawServer> raw_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

void echo(const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
  responder->respond({201,
                      "text/plain",
                      request.method + request.path + request.body + std::string(request.header("x-a")),
                      {{"X-B", "c"}}});
}

TEST_F(HttpClientTest, SendsAndReceives) {
  serve(echo);
  HttpCall post = get("/p");
  post.method = "POST";
  post.body = std::string(1 << 20, 'b');
  post.headers = {{"X-A", "value"}};
  const auto reply = call(post);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->body, "POST/p" + post.body + "value");
  EXPECT_NE(std::find(reply->headers.begin(), reply->headers.end(),
                      std::pair<std::string, std::string>("x-b", "c")),
            reply->headers.end());
}

TEST_F(HttpClientTest, KeepsItsConnections) {
  serve(echo);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(call(get("/")).ok());
  EXPECT_EQ(server_->open_connections(), 1u);
  std::vector<std::unique_ptr<HttpCallHandle>> handles;
  int done = 0;
  for (int i = 0; i < 4; ++i)
    handles.push_back(client_->send(get("/"), nullptr, [&](Result<HttpReply> r) { done += r.ok(); }));
  EXPECT_TRUE(run_until(loop_, [&] { return done == 4; }));
  EXPECT_EQ(server_->open_connections(), 4u);
}

TEST_F(HttpClientTest, AConnectionThatTheServerClosedIsReplaced) {
  serve(echo);
  HttpServerConfig same;
  same.port = server_->port();
  for (const bool notices : {false, true}) {  // before the next call, or by it
    EXPECT_TRUE(call(get("/")).ok());
    server_.reset();
    if (notices) run_for(loop_, milliseconds(5));
    server_ = std::make_unique<HttpServer>(loop_, same, echo);
    EXPECT_TRUE(call(get("/")).ok());
    EXPECT_EQ(server_->open_connections(), 1U);
  }
}

TEST_F(HttpClientTest, StreamsTheBodyAsItComes) {
  std::shared_ptr<HttpResponder> responder;
  serve([&](const HttpRequest&, std::shared_ptr<HttpResponder> r) {
    responder = std::move(r);
    responder->begin_stream(200, "text/event-stream");
    responder->write("data: 1\n\n");
  });
  std::vector<std::string> events;
  SseParser sse;
  std::optional<Result<HttpReply>> reply;
  const auto handle = client_->send(
      get("/"),
      [&](std::string_view piece) {
        sse.feed(piece, [&](std::string_view data) { events.emplace_back(data); });
      },
      [&](Result<HttpReply> r) { reply = std::move(r); });
  ASSERT_TRUE(run_until(loop_, [&] { return events.size() == 1; }));
  EXPECT_FALSE(reply.has_value());
  responder->write("data: [DONE]\n\n");
  responder->finish();
  ASSERT_TRUE(run_until(loop_, [&] { return reply.has_value(); }));
  EXPECT_EQ(events, (std::vector<std::string>{"1", "[DONE]"}));
  EXPECT_EQ((*reply)->body, "");
}

TEST_F(HttpClientTest, DroppingTheHandleHangsUp) {
  int gone = 0;
  std::shared_ptr<HttpResponder> held;
  serve([&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    held = std::move(responder);
    held->on_disconnect([&] { ++gone; });
    held->begin_stream(200, "text/plain");
    held->write("first");
  });
  std::unique_ptr<HttpCallHandle> handle;
  handle = client_->send(
      get("/"), [&](std::string_view) { handle.reset(); },
      [&](const Result<HttpReply>&) { FAIL() << "dropped calls are silent"; });
  EXPECT_TRUE(run_until(loop_, [&] { return gone == 1; }));
}

TEST_F(HttpClientTest, TimeoutsAndRefusals) {
  std::shared_ptr<HttpResponder> held;
  serve([&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) { held = std::move(responder); });
  HttpCall slow = get("/");
  slow.timeout = milliseconds(30);
  EXPECT_EQ(call(slow).error().code, ErrorCode::kDeadlineExceeded);
  const std::uint16_t closed_port = server_->port();
  server_.reset();
  HttpClient nobody(loop_, "127.0.0.1", closed_port);
  std::optional<Error> error;
  const auto handle = nobody.send(get("/"), nullptr, [&](const Result<HttpReply>& r) { error = r.error(); });
  ASSERT_TRUE(run_until(loop_, [&] { return error.has_value(); }));
  EXPECT_EQ(error->code, ErrorCode::kUnavailable);
  EXPECT_NE(error->message.find("127.0.0.1:" + std::to_string(closed_port)), std::string::npos);
}

TEST_F(HttpClientTest, RepliesOfManyForms) {
  serve_raw(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 "
      "OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(call(get("/"))->body, "ok");
  serve_raw("HTTP/1.0 200 OK\r\n\r\nuntil the end");
  EXPECT_EQ(call(get("/"))->body, "until the end");
  serve_raw("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(call(get("/"))->status, 204);
  serve_raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  HttpCall head = get("/");
  head.method = "HEAD";
  EXPECT_EQ(call(head)->status, 200);
}

TEST_F(HttpClientTest, BrokenRepliesAreErrors) {
  serve_raw("garbage\r\n\r\n");
  EXPECT_EQ(call(get("/")).error().code, ErrorCode::kCorrupt);
  serve_raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(call(get("/")).error().code, ErrorCode::kUnavailable);
  serve_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
  EXPECT_EQ(call(get("/")).error().code, ErrorCode::kUnavailable);
  serve_raw("");
  EXPECT_EQ(call(get("/")).error().code, ErrorCode::kUnavailable);
}

TEST(SseParser, IsTheSameForEveryCutOfTheBytes) {
  const std::string text =
      "data: one\n\n: comment\r\nevent: x\r\ndata:two\r\n\r\ndata:\n\nid: 4\ndata: {\"a\": 1}\n\ndata: "
      "[DONE]\n\ndata: open";
  const std::vector<std::string> expected{"one", "two", "", "{\"a\": 1}", "[DONE]"};
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      SseParser parser;
      std::vector<std::string> events;
      const auto collect = [&](std::string_view data) { events.emplace_back(data); };
      parser.feed(text.substr(0, first), collect);
      parser.feed(text.substr(first, second - first), collect);
      parser.feed(text.substr(second), collect);
      ASSERT_EQ(events, expected) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace lynx
