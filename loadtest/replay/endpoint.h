// host:port as written on a command line.
#pragma once

#include <cstdint>
#include <string>

#include "common/core/result.h"

namespace lynx {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  }
};

// "host:port", "[v6]:port", with or without "http://" before and a slash behind.
Result<Endpoint> parse_endpoint(std::string text);

}  // namespace lynx
