#include "tests/common/net/http_fixture.h"

namespace lynx {
namespace {

using HttpRequestTest = HttpFixture;

std::string body_of(const std::string& response) {
  const std::size_t at = response.find("\r\n\r\n");
  return at == std::string::npos ? "" : response.substr(at + 4);
}

TEST_F(HttpRequestTest, AnswersOneRequestAfterAnotherOnOneConnection) {
  serve_echo();
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    const std::string response = client.read_response();
    EXPECT_EQ(response.find("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 23\r\n"),
              0u)
        << response;
    EXPECT_EQ(body_of(response), "POST /v1/x ? a=b : body");
  }
  EXPECT_EQ(open_connections(), 1u);
}

TEST_F(HttpRequestTest, BytesMayComeOneByOne) {
  serve_echo();
  RawClient client(port());
  for (const char c : std::string(
           "\r\nPOST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"))
    client.send(std::string(1, c));
  EXPECT_EQ(body_of(client.read_response()), "POST /x ?  : abcde");
}

TEST_F(HttpRequestTest, PipelinedRequestsAreAnsweredInOrder) {
  serve_echo();
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 500; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\n\r\n";
  client.send(all);
  for (int i = 0; i < 500; ++i)
    EXPECT_EQ(body_of(client.read_response()), "GET /" + std::to_string(i) + " ?  : ");
}

TEST_F(HttpRequestTest, PipelinedBehindASlowAnswer) {
  std::vector<std::shared_ptr<HttpResponder>> held;
  serve({}, [&](const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    if (request.path == "/slow") return held.push_back(std::move(responder));
    responder->respond({200, "text/plain", "second", {}});
  });
  RawClient client(port());
  client.send("GET /slow HTTP/1.1\r\n\r\nGET /fast HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(thread_eventually([&] { return held.size() == 1; }));
  thread_.on_loop([&] { std::exchange(held, {})[0]->respond({200, "text/plain", "first", {}}); });
  EXPECT_EQ(body_of(client.read_response()), "first");
  EXPECT_EQ(body_of(client.read_response()), "second");
}

TEST_F(HttpRequestTest, HeadIsGetWithoutTheBody) {
  serve_echo();
  RawClient client(port());
  client.send("HEAD /x HTTP/1.1\r\n\r\nGET /y HTTP/1.1\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 12\r\n"), std::string::npos) << head;
  EXPECT_EQ(body_of(client.read_response()), "GET /y ?  : ") << "no body stood between the two";
}

TEST_F(HttpRequestTest, ConnectionCloseAndHttp10EndTheConnection) {
  serve_echo();
  RawClient closing(port());
  closing.send("GET /x HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(closing.read_to_end().find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(closing.at_end());

  RawClient old(port());
  old.send("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_to_end().find("HTTP/1.0 200 OK\r\n"), 0u);
  EXPECT_TRUE(old.at_end());

  RawClient old_kept(port());
  for (int i = 0; i < 2; ++i) {
    old_kept.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_NE(old_kept.read_response().find("Connection: keep-alive\r\n"), std::string::npos);
  }
}

TEST_F(HttpRequestTest, ExpectContinue) {
  HttpServerConfig config;
  config.max_body_bytes = 10;
  serve_echo(config);
  RawClient client(port());
  client.send("POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_EQ(body_of(client.read_response()), "POST /x ?  : ok");
  client.send("POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n"), "HTTP/1.1 413 Content Too Large\r\n")
      << "refused before the body is sent";
}

TEST_F(HttpRequestTest, AbsoluteTargetsAndHeaderNames) {
  serve({}, [](const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
    responder->respond({200,
                        "text/plain",
                        request.path + "|" + std::string(request.header("x-one")) + "|" +
                            std::string(request.header("absent")),
                        {{"X-Echo", "a\r\nEvil: 1"}}});
  });
  RawClient client(port());
  client.send("GET http://host:1/p?q HTTP/1.1\r\nX-ONE:  value \r\n\r\n");
  const std::string response = client.read_response();
  EXPECT_EQ(body_of(response), "/p|value|");
  EXPECT_NE(response.find("X-Echo: a  Evil: 1\r\n"), std::string::npos)
      << "a value cannot start a header: " << response;
}

TEST_F(HttpRequestTest, AHandlerThatThrowsOrForgetsGives500) {
  serve({}, [](const HttpRequest& request, const std::shared_ptr<HttpResponder>&) {
    if (request.path == "/throw") throw std::runtime_error("oh");
  });
  RawClient client(port());
  for (const char* path : {"/throw", "/forget"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\n\r\n");
    const std::string response = client.read_response();
    EXPECT_EQ(response.find("HTTP/1.1 500 Internal Server Error\r\n"), 0u);
    EXPECT_NE(response.find(R"("type":"server_error")"), std::string::npos);
  }
}

TEST_F(HttpRequestTest, OnlyTheFirstAnswerCounts) {
  serve({}, [](const HttpRequest&, const std::shared_ptr<HttpResponder>& responder) {
    responder->respond({200, "text/plain", "one", {}});
    responder->respond({200, "text/plain", "two", {}});
    responder->begin_stream(200, "text/plain");
    responder->write("three");
    responder->finish();
  });
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(body_of(client.read_to_end()), "one");
}

TEST_F(HttpRequestTest, StopAcceptingLetsRequestsUnderWayFinish) {
  std::shared_ptr<HttpResponder> held;
  serve({},
        [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) { held = std::move(responder); });
  RawClient busy(port());
  RawClient idle(port());
  busy.send("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(thread_eventually([&] { return held != nullptr && server_->open_connections() == 2; }));
  thread_.on_loop([&] { server_->stop_accepting(); });
  EXPECT_TRUE(idle.at_end());
  thread_.on_loop([&] { std::exchange(held, nullptr)->respond({200, "text/plain", "done", {}}); });
  const std::string response = busy.read_to_end();
  EXPECT_NE(response.find("Connection: close"), std::string::npos);
  EXPECT_EQ(body_of(response), "done");
}

TEST_F(HttpRequestTest, PortsInUseAndWrongHostsAreNamed) {
  serve_echo();
  HttpServerConfig taken;
  taken.port = port();
  EventLoop loop;
  try {
    const HttpServer second(loop, taken, {});
    FAIL() << "expected an error";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(e.what(), "cannot listen on 127.0.0.1:" + std::to_string(port()) + ": Address already in use");
  }
  HttpServerConfig nowhere;
  nowhere.host = "no such host";
  EXPECT_THROW(HttpServer(loop, nowhere, {}), std::runtime_error);
}

}  // namespace
}  // namespace lynx
