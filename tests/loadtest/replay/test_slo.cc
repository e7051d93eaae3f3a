#include <gtest/gtest.h>

#include "loadtest/replay/endpoint.h"
#include "loadtest/replay/slo.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

TEST(Slo, ClassesAndMix) {
  // As the command line gives them: split at every comma.
  const auto slos = parse_slos({"interactive:ttft=500ms", "tpot=50ms", "batch:ttft=30s"},
                               {{"interactive", 3}, {"batch", 1}});
  ASSERT_TRUE(slos.ok()) << slos.error().message;
  ASSERT_EQ(slos->size(), 2u);
  EXPECT_EQ((*slos)[0].ttft, 500ms);
  EXPECT_EQ((*slos)[0].tpot, 50ms);
  EXPECT_DOUBLE_EQ((*slos)[0].share, 0.75);
  EXPECT_EQ((*slos)[1].ttft, 30s);
  EXPECT_EQ((*slos)[1].tpot, 0us) << "no objective";
  const auto one_text = parse_slos({"a:ttft=1s,tpot=1.5ms", "b:tpot=250us"}, {});
  ASSERT_TRUE(one_text.ok());
  EXPECT_EQ((*one_text)[0].tpot, 1500us);
  EXPECT_DOUBLE_EQ((*one_text)[1].share, 0.5);
}

TEST(Slo, WrongPartsAreNamed) {
  const auto error = [](const std::vector<std::string>& slos, const std::map<std::string, double>& mix = {}) {
    const auto parsed = parse_slos(slos, mix);
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_NE(error({}), "");
  EXPECT_NE(error({"ttft=5ms"}).find("ttft=5ms"), std::string::npos);
  EXPECT_NE(error({"a:latency=5ms"}).find("latency"), std::string::npos);
  EXPECT_NE(error({"a:ttft=fast"}).find("fast"), std::string::npos);
  EXPECT_NE(error({"a:ttft=1h"}).find("1h"), std::string::npos);
  EXPECT_NE(error({"a:ttft=1s", "a:tpot=1s"}).find("twice"), std::string::npos);
  EXPECT_NE(error({"a:ttft=1s"}, {{"b", 1}}).find("'b' has no slo"), std::string::npos);
  EXPECT_NE(error({"a:ttft=1s"}, {{"a", 0}}).find("all weights"), std::string::npos);
  EXPECT_NE(error({"a:ttft=1s"}, {{"a", -1}}).find("'a'"), std::string::npos);
}

TEST(Endpoint, HostAndPort) {
  EXPECT_EQ(parse_endpoint("localhost:8000")->text(), "localhost:8000");
  EXPECT_EQ(parse_endpoint("http://10.0.0.1:80/")->host, "10.0.0.1");
  EXPECT_EQ(parse_endpoint("[::1]:9000")->host, "::1");
  EXPECT_EQ(parse_endpoint("[::1]:9000")->text(), "[::1]:9000");
  for (const char* bad : {"", "localhost", ":80", "a:0", "a:70000", "a:b", "a:80x", "[]:80"})
    EXPECT_FALSE(parse_endpoint(bad).ok()) << bad;
}

}  // namespace
}  // namespace lynx
