#include "common/net/cors.h"
#include "tests/common/net/http_fixture.h"

namespace lynx {
namespace {

class HttpCorsTest : public HttpFixture {
 protected:
  std::string answer(const std::string& request, std::vector<std::string> origins) {
    HttpServerConfig config;
    config.cors.origins = std::move(origins);
    serve_echo(config);
    RawClient client(port());
    client.send(request);
    client.shutdown_write();
    return client.read_to_end();
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

constexpr const char* kPage = "https://chat.example";

std::string get(const std::string& path, const std::string& origin) {
  return "GET " + path + " HTTP/1.1\r\nOrigin: " + origin + "\r\n\r\n";
}

std::string preflight(const std::string& path, const std::string& origin) {
  return "OPTIONS " + path + " HTTP/1.1\r\nOrigin: " + origin +
         "\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
         "authorization,content-type\r\n\r\n";
}

TEST_F(HttpCorsTest, IsOffUnlessToldOtherwise) {
  EXPECT_FALSE(has(answer(get("/v1/models", kPage), {}), "Access-Control"));
  EXPECT_TRUE(has(answer(preflight("/v1/models", kPage), {}), "OPTIONS /v1/models"))
      << "the handler's own answer";
}

TEST_F(HttpCorsTest, AnAllowedOriginMayAskAndRead) {
  const std::string asked = answer(preflight("/v1/completions", kPage), {"https://other.example", kPage});
  EXPECT_TRUE(asked.starts_with("HTTP/1.1 204 ")) << asked;
  EXPECT_TRUE(has(asked, "Access-Control-Allow-Origin: https://chat.example\r\n")) << asked;
  EXPECT_TRUE(has(asked, "Access-Control-Allow-Methods: GET, POST\r\n")) << asked;
  EXPECT_TRUE(has(asked, "Access-Control-Allow-Headers: authorization,content-type\r\n")) << asked;
  const std::string got = answer(get("/v1/models", kPage), {kPage});
  EXPECT_TRUE(has(got, "Access-Control-Allow-Origin: https://chat.example\r\n")) << got;
  EXPECT_TRUE(has(got, "Vary: Origin\r\n")) << got;
  EXPECT_TRUE(has(answer(get("/v1/models", kPage), {"*"}), "Access-Control-Allow-Origin: *\r\n"));
}

TEST_F(HttpCorsTest, OthersAndOtherPathsAreNot) {
  for (const char* origin : {"https://chat.example.evil", "http://chat.example", "null"}) {
    EXPECT_FALSE(has(answer(get("/v1/models", origin), {kPage}), "Allow-Origin")) << origin;
    EXPECT_FALSE(answer(preflight("/v1/models", origin), {kPage}).starts_with("HTTP/1.1 204")) << origin;
  }
  EXPECT_FALSE(has(answer(get("/debug/overview", kPage), {kPage}), "Access-Control"));
  EXPECT_FALSE(has(answer(get("/metrics", kPage), {"*"}), "Access-Control"));
}

TEST_F(HttpCorsTest, StreamsCarryItToo) {
  HttpServerConfig config;
  config.cors.origins = {kPage};
  serve(config, [](const HttpRequest&, const std::shared_ptr<HttpResponder>& responder) {
    responder->begin_stream(200, "text/event-stream");
    responder->finish();
  });
  RawClient client(port());
  client.send(get("/v1/completions", kPage));
  EXPECT_TRUE(has(client.read_until("\r\n\r\n"), "Access-Control-Allow-Origin: https://chat.example\r\n"));
}

TEST(CorsOrigin, IsWhatABrowserSends) {
  for (const char* good : {"*", "https://chat.example", "http://localhost:3000", "http://[::1]:3000"})
    EXPECT_TRUE(is_cors_origin(good)) << good;
  for (const char* bad : {"", "chat.example", "https://", "https://chat.example/", "https://a.example/x",
                          "://x", "https://*.example"})
    EXPECT_FALSE(is_cors_origin(bad)) << bad;
}

}  // namespace
}  // namespace lynx
