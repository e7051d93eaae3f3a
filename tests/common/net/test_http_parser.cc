// Limits of HttpRequestReader, which must not depend on how the bytes are cut into pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/net/http_parser.h"

namespace lynx {
namespace {

constexpr std::size_t kMaxHeaderBytes = 1000;
constexpr std::size_t kByLine = 0;  // a piece is a line with its end
constexpr std::size_t kPieces[] = {1, 2, 3, 7, 100, 999, 1000, 1001, 100000, kByLine};

struct Outcome {
  ParseState state = ParseState::kMore;
  int status = 0;                // of a fault
  std::size_t most_waiting = 0;  // bytes that the reader left to be offered again
};

Outcome read(std::string_view bytes, std::size_t piece) {
  HttpRequestReader reader(kMaxHeaderBytes, 1 << 20);
  Outcome outcome;
  std::string waiting;
  while (!bytes.empty() && reader.state() == ParseState::kMore) {
    const std::size_t n =
        piece == kByLine ? std::min(bytes.find('\n'), bytes.size() - 1) + 1 : std::min(piece, bytes.size());
    waiting += bytes.substr(0, n);
    bytes.remove_prefix(n);
    waiting.erase(0, reader.feed(waiting));
    if (reader.state() == ParseState::kMore)
      outcome.most_waiting = std::max(outcome.most_waiting, waiting.size());
  }
  outcome.state = reader.state();
  if (outcome.state == ParseState::kBad) outcome.status = reader.fault().status;
  return outcome;
}

void expect_all_pieces(const std::string& bytes, ParseState state, int status) {
  for (const std::size_t piece : kPieces) {
    const Outcome outcome = read(bytes, piece);
    EXPECT_EQ(outcome.state, state) << "pieces of " << piece;
    EXPECT_EQ(outcome.status, status) << "pieces of " << piece;
    EXPECT_LT(outcome.most_waiting, kMaxHeaderBytes) << "pieces of " << piece;
  }
}

// Of this many bytes, in short lines.
std::string header_of(std::size_t bytes) {
  std::string header = "GET / HTTP/1.1\r\n";
  while (header.size() + 40 < bytes) header += "X: 1234\r\n";
  return header + "Y: " + std::string(bytes - header.size() - 7, 'y') + "\r\n\r\n";
}

TEST(HttpRequestReader, AHeaderHasOneLimitHoweverItArrives) {
  ASSERT_EQ(header_of(kMaxHeaderBytes).size(), kMaxHeaderBytes);
  expect_all_pieces(header_of(kMaxHeaderBytes), ParseState::kDone, 0);
  expect_all_pieces(header_of(kMaxHeaderBytes + 1), ParseState::kBad, 431);
  expect_all_pieces(header_of(100 * kMaxHeaderBytes), ParseState::kBad, 431);
}

TEST(HttpRequestReader, ChunkLinesAndTrailersHaveTheLimitOfAHeader) {
  const std::string start = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n";
  const std::string fits(kMaxHeaderBytes - 30, 'x');
  const std::string too_long(100 * kMaxHeaderBytes, 'x');
  expect_all_pieces(start + "3;x=" + fits + "\r\nabc\r\n0\r\nX: " + fits + "\r\n\r\n", ParseState::kDone, 0);
  expect_all_pieces(start + "3;x=" + too_long + "\r\nabc\r\n0\r\n\r\n", ParseState::kBad, 431);
  expect_all_pieces(start + "0\r\nX: " + too_long + "\r\n\r\n", ParseState::kBad, 431);
}

TEST(HttpRequestReader, AnEmptyChunkedBodyMayComeInPieces) {
  const std::string start = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string end : {"0", "0\r", "0\r\n", "0\r\n\r", "0\r\nX: 1\r\n"})
    expect_all_pieces(start + end, ParseState::kMore, 0);
  expect_all_pieces(start + "0\r\n\r\n", ParseState::kDone, 0);
  expect_all_pieces(start + "0\r\nX: 1\r\n\r\n", ParseState::kDone, 0);
}

TEST(HttpRequestReader, ABodyMayBeLongerThanAHeader) {
  const std::string body(10 * kMaxHeaderBytes, 'b');
  expect_all_pieces("POST / HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
                    ParseState::kDone, 0);
  expect_all_pieces("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2710\r\n" + body + "\r\n0\r\n\r\n",
                    ParseState::kDone, 0);
}

}  // namespace
}  // namespace lynx
