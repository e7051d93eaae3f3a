// One field of every kind, for the tests of this folder.
#pragma once

#include "common/config/yaml_reader.h"

namespace lynx {

struct SampleConfig {
  std::string model = "lynx-tiny";
  bool greedy = false;
  double temperature = 1;
  std::int64_t offset = 0;
  std::uint16_t port = 8000;
  std::uint32_t batch = 16;
  std::uint64_t bytes = 1 << 20;
  std::chrono::milliseconds timeout{30'000};
  std::vector<std::string> routers{"127.0.0.1:7000"};
  std::map<std::string, double> weights{{"interactive", 1}};
  std::string deep = "x";

  ConfigFields fields() {
    ConfigFields f;
    f.field("model", &model, "name of the model");
    f.field("greedy", &greedy, "no sampling");
    f.section("http");
    f.field("port", &port, "port of the API");
    f.field("timeout", &timeout, "whole request");
    f.section("engine");
    f.field("temperature", &temperature, "of sampling");
    f.field("offset", &offset, "signed");
    f.field("batch", &batch, "largest batch");
    f.field("bytes", &bytes, "of the pool");
    f.section("http");
    f.field("routers", &routers, "host:port of each");
    f.section("slo.classes");
    f.field("weights", &weights, "by class");
    f.field("deep", &deep, "two levels down");
    return f;
  }

  bool operator==(const SampleConfig&) const = default;
};

}  // namespace lynx
