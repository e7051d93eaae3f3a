#include <algorithm>
#include <atomic>
#include <list>

#include "tests/common/net/http_fixture.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

class HttpLimitTest : public HttpFixture {
 protected:
  // Sends the bytes on a connection of their own; the whole answer. A refused client that is still sending is
  // listened to for a second and then cut off: one that stood still for so long asks again.
  std::string answer_to(std::string_view bytes) {
    while (true) {
      const auto start = std::chrono::steady_clock::now();
      RawClient client(port());
      client.send(bytes);
      std::string answer = client.read_to_end();
      if (!answer.empty() || std::chrono::steady_clock::now() - start < milliseconds(500)) return answer;
    }
  }
};

void expect_refusal(const std::string& response, const std::string& status, const std::string& code) {
  EXPECT_EQ(response.find("HTTP/1.1 " + status + "\r\n"), 0u) << response;
  EXPECT_NE(response.find("Connection: close\r\n"), std::string::npos) << response;
  EXPECT_NE(response.find("{\"error\":{\"message\":\""), std::string::npos) << response;
  EXPECT_NE(response.find("\"param\":null,\"code\":\"" + code + "\"}}"), std::string::npos) << response;
}

TEST_F(HttpLimitTest, MalformedRequestsGet400) {
  serve_echo();
  for (const std::string bytes :
       {"nonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/3.0\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n bad: fold\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "\x16\x03\x01\x02 TLS hello\r\n\r\n"})
    expect_refusal(answer_to(bytes), "400 Bad Request", "malformed_request");
  expect_refusal(answer_to(std::string("GET /\0 HTTP/1.1\r\n\r\n", 19)), "400 Bad Request",
                 "malformed_request");
  expect_refusal(answer_to("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
                 "501 Not Implemented", "unsupported_encoding");
}

TEST_F(HttpLimitTest, LargeHeadersGet431) {
  HttpServerConfig config;
  config.max_header_bytes = 1000;
  serve_echo(config);
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nConnection: close\r\nX: " + std::string(900, 'a') + "\r\n\r\n")
                .find("HTTP/1.1 200"),
            0u);
  expect_refusal(answer_to("GET / HTTP/1.1\r\nX: " + std::string(1000, 'a') + "\r\n\r\n"),
                 "431 Request Header Fields Too Large", "headers_too_large");
  expect_refusal(answer_to("GET /" + std::string(1 << 20, 'a')), "431 Request Header Fields Too Large",
                 "headers_too_large");
}

TEST_F(HttpLimitTest, LargeBodiesGet413EvenWhileTheClientStillSends) {
  HttpServerConfig config;
  config.max_body_bytes = 100;
  serve_echo(config);
  const std::string large(1 << 20, 'x');
  expect_refusal(answer_to("POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + large),
                 "413 Content Too Large", "body_too_large");
  expect_refusal(answer_to("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n32\r\n" +
                           large.substr(0, 50) + "\r\n33\r\n" + large),
                 "413 Content Too Large", "body_too_large");
}

TEST_F(HttpLimitTest, TheServerServesOnAfterEachRefusal) {
  serve_echo();
  for (int i = 0; i < 20; ++i) answer_to("bad\r\n\r\n");
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").find("HTTP/1.1 200"), 0u);
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(HttpLimitTest, ARequestThatDoesNotArriveGets408) {
  HttpServerConfig config;
  config.read_timeout = milliseconds(60);
  serve_echo(config);
  expect_refusal(answer_to("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf"), "408 Request Timeout",
                 "request_timeout");
  RawClient drip(port());  // a byte now and then does not help
  drip.send("GET / HT");
  expect_refusal(drip.read_to_end(), "408 Request Timeout", "request_timeout");
}

TEST_F(HttpLimitTest, IdleConnectionsAreClosedInSilence) {
  HttpServerConfig config;
  config.idle_timeout = milliseconds(60);
  serve_echo(config);
  RawClient fresh(port());
  EXPECT_TRUE(fresh.at_end());
  bool answered = false;
  while (
      !answered) {  // a machine that stands still between the two lines asks on a connection that is closed
    RawClient kept(port());
    kept.send("GET / HTTP/1.1\r\n\r\n");
    answered = !kept.read_response().empty();
    EXPECT_TRUE(kept.at_end());
  }
}

TEST_F(HttpLimitTest, TheTimeoutsDoNotCountWhileTheHandlerWorks) {
  HttpServerConfig config;
  config.read_timeout = config.idle_timeout = config.write_timeout = milliseconds(20);
  std::unique_ptr<Timer> timer;
  std::atomic<bool> asked = false;
  serve(config, [&](const HttpRequest&, const std::shared_ptr<HttpResponder>& responder) {
    asked = true;
    timer = thread_.loop().after(milliseconds(150), [responder] {
      responder->respond({200, "text/plain", "late", {}});
    });
  });
  std::string answer;
  while (!asked)
    answer = answer_to("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");  // idle for too long: again
  EXPECT_NE(answer.find("late"), std::string::npos) << answer;
  thread_.on_loop([&] { timer.reset(); });
}

TEST_F(HttpLimitTest, AboveMaxConnectionsGet503) {
  HttpServerConfig config;
  config.max_connections = 2;
  serve_echo(config);
  RawClient first(port());
  RawClient second(port());
  ASSERT_TRUE(wait_for_connections(2));
  const std::string refused = answer_to("GET / HTTP/1.1\r\n\r\n");
  expect_refusal(refused, "503 Service Unavailable", "too_many_connections");
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos);
  first.close();
  ASSERT_TRUE(thread_eventually([&] { return server_->open_connections() < 2; }));
  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").find("HTTP/1.1 200"), 0u);
}

TEST_F(HttpLimitTest, AFloodOfConnectionsIsHeldOff) {
  HttpServerConfig config;
  config.max_connections = 1;
  serve_echo(config);
  std::list<RawClient> flood;
  for (int i = 0; i < 400; ++i) flood.emplace_back(port());
  EXPECT_TRUE(thread_eventually([&] { return server_->open_connections() <= 1 + 128; }));
  flood.clear();
  EXPECT_TRUE(wait_for_connections(0));
}

}  // namespace
}  // namespace lynx
