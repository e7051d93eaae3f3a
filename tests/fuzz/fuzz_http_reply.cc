// Any bytes from a server, in several cuts: a reply comes out, or a problem. The cut changes nothing.
#include <algorithm>

#include "common/core/check.h"
#include "common/net/http_parser.h"

namespace {

constexpr std::size_t kByLine = 0;

// The reply in the bytes, as one text; empty: none. They arrive in pieces of so many bytes, or line by line,
// and then the connection ends.
std::string parse(std::string_view bytes, std::size_t piece, bool head) {
  std::string pieces;
  lynx::HttpReplyReader reader(head, [&](std::string_view body) { pieces += body; });
  std::string buffer;
  for (std::size_t at = 0, n = 0; at < bytes.size() && reader.state() == lynx::ParseState::kMore; at += n) {
    n = piece == kByLine ? std::min(bytes.find('\n', at), bytes.size() - 1) + 1 - at : piece;
    buffer += bytes.substr(at, n);
    buffer.erase(0, reader.feed(buffer));
  }
  reader.end_of_stream();
  if (reader.state() == lynx::ParseState::kBad) LYNX_CHECK(!reader.problem().empty(), "a problem has words");
  if (reader.state() != lynx::ParseState::kDone) return {};
  std::string said = reader.keep_alive() ? "kept " : "closed ";
  const lynx::HttpReply reply = reader.take();
  said += std::to_string(reply.status);
  for (const auto& header : reply.headers) said += "\n" + header.first + ": " + header.second;
  return said + "\n\n" + pieces;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool head = size > 0 && bytes.back() == 'H';
  const std::string whole = parse(bytes, size + 1, head);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, kByLine})
    LYNX_CHECK(whole == parse(bytes, piece, head), "a reply depends on how its bytes are cut");
  return 0;
}
