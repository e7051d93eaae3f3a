// A client that has sent its request and shuts its direction down still reads: it gets its answer. One that
// has closed altogether looks the same at first, and is found out.
#include "tests/common/net/http_fixture.h"

namespace lynx {
namespace {

class HttpHalfCloseTest : public HttpFixture {
 protected:
  void serve_held() {
    serve({}, [this](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
      responder->on_disconnect([this] { ++gone_; });
      held_ = std::move(responder);
    });
  }
  void ask(RawClient& client, const std::string& version = "HTTP/1.1") {
    client.send("GET /s " + version + "\r\n\r\n");
    ASSERT_TRUE(thread_eventually([&] { return held_ != nullptr; }));
  }
  void begin_events(RawClient& client) {
    ask(client);
    thread_.on_loop([&] {
      held_->begin_stream(200, "text/event-stream");
      held_->write("data: 1\n\n");
    });
    client.read_until("data: 1\n\n");
  }
  void TearDown() override {
    thread_.on_loop([&] { held_.reset(); });
    HttpFixture::TearDown();
  }

  int gone() {
    return thread_.on_loop([&] { return gone_; });
  }

  std::shared_ptr<HttpResponder> held_;
  int gone_ = 0;
};

TEST_F(HttpHalfCloseTest, AnAnswerToComeIsStillGiven) {
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    serve_held();
    RawClient client(port());
    ask(client, version);
    client.shutdown_write();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(50));  // the server has seen it by then, or not: both must do
    thread_.on_loop([&] { held_->respond({200, "text/plain", "the answer", {}}); });
    const std::string all = client.read_to_end();
    EXPECT_NE(all.find("200 OK"), std::string::npos) << all;
    EXPECT_TRUE(all.ends_with("\r\n\r\nthe answer")) << all;
    EXPECT_EQ(gone(), 0);
    EXPECT_TRUE(wait_for_connections(0)) << "nothing more can come";
    TearDown();
  }
}

TEST_F(HttpHalfCloseTest, AStreamOfEventsGoesOn) {
  serve_held();
  RawClient client(port());
  begin_events(client);
  client.shutdown_write();
  EXPECT_NE(client.read_until(":\n\n").find(":\n\n"), std::string::npos)
      << "a comment, which tells a closed client";
  thread_.on_loop([&] {
    held_->write("data: 2\n\n");
    held_->finish();
  });
  const std::string rest = client.read_to_end();
  EXPECT_NE(rest.find("data: 2\n\n"), std::string::npos) << rest;
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n")) << rest;
  EXPECT_EQ(gone(), 0);
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(HttpHalfCloseTest, AClientThatClosesAStreamOfEventsIsFoundOut) {
  serve_held();
  RawClient client(port());
  begin_events(client);
  client.close();
  EXPECT_TRUE(thread_eventually([&] { return gone_ == 1; }));
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(HttpHalfCloseTest, HalfARequestIsDropped) {
  serve_held();
  RawClient client(port());
  client.send("POST /s HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf");
  client.shutdown_write();
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(wait_for_connections(0));
}

}  // namespace
}  // namespace lynx
