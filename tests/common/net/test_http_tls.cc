#include "tests/common/net/http_fixture.h"
#include "tests/common/net/tls_client.h"

namespace lynx {
namespace {

class HttpTlsTest : public HttpFixture {
 protected:
  HttpServerConfig config_with_tls() {
    const CertificateFiles files = make_certificate(::testing::TempDir());
    HttpServerConfig config;
    config.tls_certificate_file = files.certificate;
    config.tls_key_file = files.key;
    return config;
  }
};

TEST_F(HttpTlsTest, ServesLargeBodiesBothWays) {
  serve_echo(config_with_tls());
  TlsClient client(port());
  ASSERT_TRUE(client.connected());
  const std::string body(5 << 20, 'b');
  client.send("POST /x HTTP/1.1\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const std::string response = client.read_to_end();
  EXPECT_EQ(response.find("HTTP/1.1 200 OK\r\n"), 0u);
  EXPECT_EQ(response.size() - response.find("POST /x"), body.size() + 13);
}

TEST_F(HttpTlsTest, StreamsAndNoticesTheClientsEnd) {
  std::shared_ptr<HttpResponder> held;
  bool gone = false;
  serve(config_with_tls(), [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    held = std::move(responder);
    held->on_disconnect([&] { gone = true; });
    held->begin_stream(200, "text/event-stream");
    held->write("data: 1\n\n");
  });
  {
    TlsClient client(port());
    client.send("GET / HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(thread_eventually([&] { return held != nullptr; }));
  }
  EXPECT_TRUE(thread_eventually([&] { return gone; }));
  thread_.on_loop([&] { held.reset(); });
}

TEST_F(HttpTlsTest, PlainTextOnATlsPortIsClosed) {
  serve_echo(config_with_tls());
  RawClient plain(port());
  plain.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(plain.read_to_end().find("HTTP/1.1"), std::string::npos);
  TlsClient client(port());
  EXPECT_TRUE(client.connected()) << "others are served on";
  EXPECT_TRUE(wait_for_connections(1));
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedAreNamed) {
  EventLoop loop;
  HttpServerConfig config = config_with_tls();
  config.tls_key_file = config.tls_certificate_file;
  try {
    const HttpServer server(loop, config, {});
    FAIL() << "expected an error";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()).find("TLS key '" + config.tls_key_file + "': "), 0u) << e.what();
  }
  config.tls_certificate_file = "/nonexistent.pem";
  EXPECT_THROW(HttpServer(loop, config, {}), std::runtime_error);
}

}  // namespace
}  // namespace lynx
