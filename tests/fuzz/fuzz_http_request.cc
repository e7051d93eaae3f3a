// Any bytes on the HTTP port, in several cuts: requests come out, or a fault with a status. The cut changes
// nothing.
#include <algorithm>

#include "common/core/check.h"
#include "common/net/http_parser.h"

namespace {

constexpr std::size_t kByLine = 0;

// The requests in the bytes, as one text. They arrive in pieces of so many bytes, or line by line.
std::string parse(std::string_view bytes, std::size_t piece) {
  lynx::HttpRequestReader reader(1024, 4096);
  std::string said;
  std::string buffer;
  for (std::size_t at = 0, n = 0; at < bytes.size(); at += n) {
    n = piece == kByLine ? std::min(bytes.find('\n', at), bytes.size() - 1) + 1 - at : piece;
    buffer += bytes.substr(at, n);
    for (std::size_t used = 1; used > 0 && !buffer.empty();) {
      used = reader.feed(buffer);
      buffer.erase(0, used);
      if (reader.state() == lynx::ParseState::kBad) {
        LYNX_CHECK(reader.fault().status >= 400 && reader.fault().status <= 501,
                   "a fault has a status of its own");
        return said;
      }
      if (reader.state() != lynx::ParseState::kDone) continue;
      const lynx::HttpRequest request = reader.take();
      said += request.method + " " + request.path + "?" + request.query + " " + request.body + "\n";
      reader.reset();
    }
  }
  return said;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = parse(bytes, size + 1);
  for (const std::size_t piece : {std::size_t{7}, kByLine})
    LYNX_CHECK(whole == parse(bytes, piece), "a request depends on how its bytes are cut");
  return 0;
}
