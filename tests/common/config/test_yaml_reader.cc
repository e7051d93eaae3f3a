#include <gtest/gtest.h>

#include "tests/common/config/sample_config.h"

namespace lynx {
namespace {

std::string error_of(const std::string& yaml) {
  SampleConfig config;
  auto fields = config.fields();
  try {
    read_yaml_text(yaml, "lynx.yaml", fields);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

SampleConfig parsed(const std::string& yaml) {
  SampleConfig config;
  auto fields = config.fields();
  read_yaml_text(yaml, "lynx.yaml", fields);
  return config;
}

TEST(YamlReader, ReadsEveryKindOfField) {
  const auto c = parsed(R"(
model: "a: b"
greedy: true
http: {port: 65535, timeout: 5m, routers: [a:1, "b:2"]}
engine:
  temperature: 0.25
  offset: -9223372036854775808
  batch: 4294967295
  bytes: 18446744073709551615
slo:
  classes:
    weights: {batch: 0.5, interactive: 2}
)");
  EXPECT_EQ(c.model, "a: b");
  EXPECT_TRUE(c.greedy);
  EXPECT_EQ(c.port, 65535);
  EXPECT_EQ(c.timeout, std::chrono::minutes(5));
  EXPECT_EQ(c.routers, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(c.temperature, 0.25);
  EXPECT_EQ(c.offset, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(c.batch, 4294967295u);
  EXPECT_EQ(c.bytes, 18446744073709551615u);
  EXPECT_EQ(c.weights, (std::map<std::string, double>{{"batch", 0.5}, {"interactive", 2}}));
  EXPECT_EQ(c.deep, "x") << "what the file leaves out keeps its default";
}

TEST(YamlReader, EmptyDocumentsChangeNothing) {
  EXPECT_EQ(parsed(""), SampleConfig{});
  EXPECT_EQ(parsed("# only a comment\n"), SampleConfig{});
  EXPECT_EQ(parsed("http:\n"), SampleConfig{});
}

TEST(YamlReader, Durations) {
  const auto timeout = [](const std::string& text) {
    return parsed("http: {timeout: " + text + "}").timeout.count();
  };
  EXPECT_EQ(timeout("250ms"), 250);
  EXPECT_EQ(timeout("2s"), 2000);
  EXPECT_EQ(timeout("0.5s"), 500);
  EXPECT_EQ(timeout("1.5h"), 5'400'000);
  EXPECT_EQ(timeout("\"5m\""), 300'000);
  EXPECT_EQ(timeout("17"), 17);
  for (const char* wrong : {"-1s", "1.5ms", "1d", "s", "1 s", "1e300s", "nan", "[1s]"}) {
    EXPECT_EQ(error_of(std::string("http: {timeout: ") + wrong + "}")
                  .find("lynx.yaml:1: http.timeout: expected a duration such as 250ms, 2s or 5m, got "),
              0u)
        << wrong;
  }
}

TEST(YamlReader, ErrorsNameFileLineAndPath) {
  EXPECT_EQ(error_of("model: x\nhttp:\n  port: abc\n"),
            "lynx.yaml:3: http.port: expected an integer from 0 to 65535, got 'abc'");
  EXPECT_EQ(error_of("http:\n  port: 65536\n"),
            "lynx.yaml:2: http.port: expected an integer from 0 to 65535, got '65536'");
  EXPECT_EQ(error_of("http:\n  port: '80'\n"),
            "lynx.yaml:2: http.port: expected an integer from 0 to 65535, got the string '80'");
  EXPECT_EQ(error_of("http:\n  port:\n"),
            "lynx.yaml:2: http.port: expected an integer from 0 to 65535, got nothing");
  EXPECT_EQ(error_of("greedy: yes"), "lynx.yaml:1: greedy: expected true or false, got 'yes'");
  EXPECT_EQ(error_of("model: [a]"), "lynx.yaml:1: model: expected a string, got a list");
  EXPECT_EQ(error_of("engine:\n  temperature: .inf"),
            "lynx.yaml:2: engine.temperature: expected a number, got '.inf'");
  EXPECT_EQ(error_of("engine:\n  batch: -1").find("lynx.yaml:2: engine.batch: expected an integer from 0"),
            0u);
  EXPECT_EQ(error_of("http:\n  routers:\n    - a\n    - {b: 1}"),
            "lynx.yaml:4: http.routers: expected a list of strings, got a map");
  EXPECT_EQ(error_of("slo:\n  classes:\n    weights:\n      batch: high"),
            "lynx.yaml:4: slo.classes.weights.batch: expected a number, got 'high'");
  EXPECT_EQ(error_of("http: 3"), "lynx.yaml:1: http: expected a section with fields of its own");
  EXPECT_EQ(error_of("- a"), "lynx.yaml:1: expected keys and values");
}

TEST(YamlReader, UnknownKeysAreErrorsWithASuggestion) {
  EXPECT_EQ(error_of("http:\n  prot: 1\n"), "lynx.yaml:2: http.prot: unknown key, did you mean 'http.port'?");
  EXPECT_EQ(error_of("htpp:\n  port: 1\n"), "lynx.yaml:1: htpp: unknown key, did you mean 'http'?");
  EXPECT_EQ(error_of("colour: red"), "lynx.yaml:1: colour: unknown key");
}

TEST(YamlReader, DuplicateKeysAreErrors) {
  EXPECT_EQ(error_of("model: a\nmodel: b\n"), "lynx.yaml:2: model: the key stands here twice");
  EXPECT_EQ(error_of("http: {port: 1}\ngreedy: true\nhttp: {port: 2}\n"),
            "lynx.yaml:3: http: the key stands here twice");
  EXPECT_EQ(error_of("slo: {classes: {weights: {a: 1, a: 2}}}"),
            "lynx.yaml:1: slo.classes.weights.a: the key stands here twice");
}

TEST(YamlReader, BrokenYamlNamesTheLine) {
  EXPECT_EQ(error_of("model: a\nhttp: {port: 1\n").find("lynx.yaml:"), 0u);
  EXPECT_EQ(error_of("model: *nowhere").find("lynx.yaml:1: "), 0u);
  EXPECT_EQ(error_of("model: a\n---\ngreedy: true\n"), "lynx.yaml:2: expected one YAML document");
  EXPECT_EQ(error_of(","), "lynx.yaml:1: expected one YAML document") << "where the parser makes no headway";
  EXPECT_EQ(error_of("? [a, b]\n: 1\n"), "lynx.yaml:1: a key must be a plain word");
  EXPECT_EQ(error_of("model: &a [*a]").find("lynx.yaml:1: model: "), 0u);
  EXPECT_NE(error_of(std::string(5000, '[')), "no error");
  EXPECT_EQ(error_of(std::string((1 << 20) + 1, '#')), "lynx.yaml: larger than 1 MiB");
}

TEST(YamlReader, AFileThatCannotBeReadIsNamed) {
  SampleConfig config;
  auto fields = config.fields();
  try {
    read_yaml_file("/nonexistent/lynx.yaml", fields);
    FAIL() << "expected an error";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "/nonexistent/lynx.yaml: No such file or directory");
  }
  EXPECT_THROW(read_yaml_file("/tmp", fields), ConfigError) << "a directory";
}

TEST(PrintYaml, ReadsBackEqual) {
  SampleConfig config;
  config.model = "quote \" backslash \\ tab \t newline \n # no comment: émoji 🐈";
  config.greedy = true;
  config.temperature = 0.1 + 0.2;
  config.offset = -7;
  config.timeout = std::chrono::milliseconds(90'001);
  config.routers = {"true", "null", "", "- a", "12", "~"};
  config.weights = {{"a b", 1e-300}, {"on", -0.0}, {"c", 12345678.9}};
  config.deep = "";
  EXPECT_EQ(parsed(print_yaml(config.fields())), config);

  config.routers.clear();
  config.weights.clear();
  EXPECT_EQ(parsed(print_yaml(config.fields())), config);
}

}  // namespace
}  // namespace lynx
