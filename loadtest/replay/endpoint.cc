#include "loadtest/replay/endpoint.h"

#include <charconv>

namespace lynx {

Result<Endpoint> parse_endpoint(std::string text) {
  const Error wrong{ErrorCode::kInvalidArgument, "'" + text + "' is not host:port"};
  if (text.starts_with("http://")) text.erase(0, 7);
  while (text.ends_with('/')) text.pop_back();
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return wrong;
  Endpoint out{.host = text.substr(0, colon), .port = 0};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (error != std::errc() || stop != end || out.port == 0) return wrong;
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty()) return wrong;
  return out;
}

}  // namespace lynx
