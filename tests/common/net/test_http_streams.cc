#include <list>

#include "tests/common/net/http_fixture.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

// Holds the responder of each request, so that a test can answer it as it likes.
class HttpStreamTest : public HttpFixture {
 protected:
  struct Held {
    std::shared_ptr<HttpResponder> responder;
    int gone = 0;
  };

  void serve_held(HttpServerConfig config = {}) {
    serve(config, [this](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
      Held& held = held_.emplace_back();
      held.responder = std::move(responder);
      held.responder->on_disconnect([&held] { ++held.gone; });
    });
  }
  void TearDown() override {
    thread_.on_loop([&] { server_.reset(); });
    thread_.on_loop([&] { held_.clear(); });
  }
  bool wait_for_requests(std::size_t count) {
    return thread_eventually([&] { return held_.size() == count; });
  }
  // Sends a request and waits until its handler has been called.
  bool ask(RawClient& client, const std::string& request = "GET /s HTTP/1.1\r\n\r\n") {
    client.send(request);
    return wait_for_requests(++asked_);
  }
  HttpResponder& responder() { return *held_.back().responder; }  // of the last request
  bool wait_for_gone(Held& held) {
    return thread_eventually([&] { return held.gone == 1 && !held.responder->connected(); });
  }

  std::list<Held> held_;  // of the loop's thread
  std::size_t asked_ = 0;
};

TEST_F(HttpStreamTest, ChunksArriveAsWrittenAndTheConnectionLivesOn) {
  serve_held();
  RawClient client(port());
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(ask(client));
    thread_.on_loop([&] { responder().begin_stream(200, "text/event-stream"); });
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_EQ(
        head.find("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"),
        0u);
    EXPECT_NE(head.find("Cache-Control: no-cache\r\n"), std::string::npos);
    thread_.on_loop([&] { responder().write("data: one\n\n"); });
    EXPECT_EQ(client.read_until("one\n\n\r\n"), "b\r\ndata: one\n\n\r\n") << "before the stream ends";
    thread_.on_loop([&] {
      responder().write("");
      responder().write(std::string(300, 'x'));
      responder().finish();
    });
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "12c\r\n" + std::string(300, 'x') + "\r\n0\r\n\r\n");
  }
  EXPECT_EQ(held_.front().gone, 0);
}

TEST_F(HttpStreamTest, Http10StreamsUntilTheConnectionEnds) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client, "GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  thread_.on_loop([&] {
    responder().begin_stream(200, "text/plain");
    responder().write("abc");
    responder().write("def");
    responder().finish();
  });
  const std::string all = client.read_to_end();
  EXPECT_EQ(all.find("Transfer-Encoding"), std::string::npos);
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), "abcdef");
}

TEST_F(HttpStreamTest, AStreamDroppedByItsHandlerIsCutWithoutItsLastChunk) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client));
  thread_.on_loop([&] {
    responder().begin_stream(200, "text/plain");
    responder().write("abc");
    held_.clear();
  });
  const std::string all = client.read_to_end();
  EXPECT_NE(all.find("3\r\nabc\r\n"), std::string::npos);
  EXPECT_EQ(all.find("0\r\n\r\n"), std::string::npos);
}

TEST_F(HttpStreamTest, ADisconnectIsSeenBeforeAnyAnswer) {
  serve_held();
  for (const bool reset : {false, true}) {
    RawClient client(port());
    ASSERT_TRUE(ask(client));
    reset ? client.reset() : client.close();
    EXPECT_TRUE(wait_for_gone(held_.back()));
  }
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(HttpStreamTest, ADisconnectIsSeenInTheMiddleOfAStream) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client));
  thread_.on_loop([&] {
    responder().begin_stream(200, "text/plain");
    responder().write("abc");
  });
  client.read_until("abc");
  client.close();
  EXPECT_TRUE(wait_for_gone(held_.back()));
  thread_.on_loop([&] {  // as late as it likes: nothing happens
    responder().write("more");
    responder().finish();
    responder().respond({});
  });
  EXPECT_EQ(held_.back().gone, 1);
}

TEST_F(HttpStreamTest, ADisconnectAfterTheAnswerIsNobodysBusiness) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client));
  thread_.on_loop([&] { responder().respond({200, "text/plain", "x", {}}); });
  client.read_response();
  client.close();
  EXPECT_TRUE(wait_for_connections(0));
  EXPECT_EQ(held_.back().gone, 0);
}

TEST_F(HttpStreamTest, OneWhoRegistersTooLateIsToldToo) {
  std::shared_ptr<HttpResponder> held;
  serve({},
        [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) { held = std::move(responder); });
  RawClient client(port());
  client.send("GET /s HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(thread_eventually([&] { return held != nullptr; }));
  client.close();
  ASSERT_TRUE(wait_for_connections(0));
  bool told = false;
  thread_.on_loop([&] {
    held->on_disconnect([&] { told = true; });
    EXPECT_FALSE(told) << "never inside the call";
  });
  EXPECT_TRUE(thread_eventually([&] { return told; }));
}

TEST_F(HttpStreamTest, ASlowReaderIsClosedWhenTooMuchPilesUp) {
  HttpServerConfig config;
  config.max_write_buffer_bytes = 256 << 10;
  serve_held(config);
  RawClient slow(port(), 4096);
  ASSERT_TRUE(ask(slow));
  std::size_t accepted = 0;
  thread_.on_loop([&] { responder().begin_stream(200, "text/plain"); });
  EXPECT_TRUE(thread_eventually([&] {
    if (!responder().connected()) return true;
    responder().write(std::string(64 << 10, 'x'));
    accepted += 64 << 10;
    EXPECT_EQ(held_.back().gone, 0) << "never inside write()";
    return false;
  }));
  EXPECT_TRUE(wait_for_gone(held_.back()));
  EXPECT_LT(accepted, 32u << 20) << "its memory was bounded";
}

TEST_F(HttpStreamTest, AFastReaderMayBeGivenMoreThanTheLimitInOneTurn) {
  HttpServerConfig config;
  config.max_write_buffer_bytes = 1 << 10;
  serve_held(config);
  RawClient client(port());
  ASSERT_TRUE(ask(client, "GET /s HTTP/1.1\r\nConnection: close\r\n\r\n"));
  thread_.on_loop([&] {
    responder().begin_stream(200, "text/plain");
    for (int i = 0; i < 64; ++i) responder().write(std::string(1 << 10, 'x'));
    responder().finish();
  });
  EXPECT_GT(client.read_to_end().size(), 64u << 10);
}

TEST_F(HttpStreamTest, AReaderThatStopsIsClosedAtTheWriteTimeout) {
  HttpServerConfig config;
  config.write_timeout = milliseconds(60);
  serve_held(config);
  RawClient stuck(port(), 4096);
  ASSERT_TRUE(ask(stuck));
  thread_.on_loop([&] { responder().respond({200, "text/plain", std::string(16 << 20, 'x'), {}}); });
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(HttpStreamTest, ALargeAnswerReachesAPatientReaderWhole) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client));
  thread_.on_loop([&] { responder().respond({200, "text/plain", std::string(16 << 20, 'x'), {}}); });
  const std::string response = client.read_response();
  EXPECT_EQ(response.size() - response.find("\r\n\r\n") - 4, 16u << 20);
}

TEST_F(HttpStreamTest, ManyStreamsSideBySide) {
  serve_held();
  constexpr std::size_t kStreams = 300;
  std::list<RawClient> clients;
  for (std::size_t i = 0; i < kStreams; ++i)
    clients.emplace_back(port()).send("GET /s HTTP/1.1\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(wait_for_requests(kStreams));
  thread_.on_loop([&] {
    for (auto& held : held_) held.responder->begin_stream(200, "text/plain");
  });
  for (int token = 0; token < 50; ++token) {
    thread_.on_loop([&] {
      for (auto& held : held_) held.responder->write("t" + std::to_string(token) + ";");
    });
  }
  thread_.on_loop([&] {
    for (auto& held : held_) held.responder->finish();
  });
  for (auto& client : clients) {
    const std::string all = client.read_to_end();
    EXPECT_NE(all.find("t0;"), std::string::npos);
    EXPECT_TRUE(all.ends_with("4\r\nt49;\r\n0\r\n\r\n")) << all;
  }
}

TEST_F(HttpStreamTest, RespondersMayOutliveTheServer) {
  serve_held();
  RawClient client(port());
  ASSERT_TRUE(ask(client));
  thread_.on_loop([&] { server_.reset(); });
  EXPECT_TRUE(client.at_end());
  thread_.on_loop([&] {
    EXPECT_FALSE(responder().connected());
    responder().respond({});
    EXPECT_EQ(held_.back().gone, 0);
  });
}

TEST_F(HttpStreamTest, TheServerMayEndInsideAHandler) {
  serve({}, [this](const HttpRequest&, const std::shared_ptr<HttpResponder>&) { server_.reset(); });
  RawClient client(port());
  client.send("GET /s HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(client.at_end());
}

}  // namespace
}  // namespace lynx
