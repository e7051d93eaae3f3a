#include <gtest/gtest.h>

#include "loadtest/replay/completion_stream.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

class CompletionStreamTest : public ::testing::Test {
 protected:
  void piece(const std::string& text) {
    feed(R"(data: {"choices":[{"index":0,"text":")" + text + "\"}]}\n\n");
  }
  void feed(const std::string& bytes) { stream_.on_bytes(bytes, clock_.now()); }
  Outcome finish(Result<HttpReply> reply = HttpReply{.status = 200, .headers = {}, .body = {}}) {
    Outcome out;
    out.input_tokens = 77;
    stream_.finish(reply, clock_.now(), out);
    return out;
  }

  ManualClock clock_;
  CompletionStream stream_{clock_.now()};
};

TEST_F(CompletionStreamTest, TimesAreTakenWherePiecesArrive) {
  clock_.advance(100ms);
  piece("a");
  clock_.advance(20ms);
  piece("b");
  clock_.advance(30ms);
  piece("c");
  feed(R"(data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]})"
       "\n\n");
  feed(R"(data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}})"
       "\n\ndata: [DONE]\n\n");
  clock_.advance(1ms);
  const auto out = finish();
  EXPECT_TRUE(out.completed()) << out.failure << out.detail;
  EXPECT_EQ(out.ttft, 100ms);
  EXPECT_EQ(out.itl, (std::vector<Clock::duration>{20ms, 30ms}));
  EXPECT_EQ(out.e2e, 151ms);
  EXPECT_EQ(out.input_tokens, 12u);
  EXPECT_EQ(out.output_tokens, 3u);
  EXPECT_EQ(out.tpot(), 25500us) << "(e2e - ttft) / (tokens - 1)";
}

TEST_F(CompletionStreamTest, EventsCutAnywhereAreTheSame) {
  const std::string bytes = R"(data: {"choices":[{"text":"x"}]})"
                            "\r\n\r\n"
                            R"(data: {"choices":[{"text":"y","finish_reason":"stop"}]})"
                            "\n\ndata: [DONE]\n\n";
  for (const char c : bytes) {
    clock_.advance(1ms);
    feed(std::string(1, c));
  }
  const auto out = finish();
  EXPECT_TRUE(out.completed()) << out.detail;
  EXPECT_EQ(out.output_tokens, 2u) << "without usage: pieces";
  EXPECT_EQ(out.input_tokens, 77u) << "without usage: as asked";
  EXPECT_EQ(out.itl.size(), 1u);
}

TEST_F(CompletionStreamTest, AnEmptyFirstPieceIsTheFirstToken) {
  clock_.advance(10ms);
  piece("");  // half a character
  clock_.advance(10ms);
  piece("");
  piece("é");
  feed("data: [DONE]\n\n");
  const auto out = finish();
  EXPECT_EQ(out.ttft, 10ms);
  EXPECT_EQ(out.itl.size(), 1u) << "later empty ones are no tokens to see";
}

TEST_F(CompletionStreamTest, OneTokenHasNoTpot) {
  feed(R"(data: {"choices":[{"text":"x","finish_reason":"length"}],"usage":{"completion_tokens":1}})"
       "\n\n");
  const auto out = finish();
  EXPECT_TRUE(out.completed());
  EXPECT_FALSE(out.has_tpot());
}

TEST_F(CompletionStreamTest, ARefusalIsNamedByStatusAndMessage) {
  feed(R"({"error":{"message":"the queue of class 'interactive' is full","type":"overloaded"}})");
  const auto out = finish(HttpReply{.status = 429, .headers = {}, .body = {}});
  EXPECT_EQ(out.failure, "http_429");
  EXPECT_EQ(out.detail, "the queue of class 'interactive' is full");
}

TEST_F(CompletionStreamTest, ARefusalInTheReplyItself) {
  const auto out = finish(HttpReply{.status = 502, .headers = {}, .body = "bad gateway"});
  EXPECT_EQ(out.failure, "http_502");
  EXPECT_EQ(out.detail, "bad gateway");
}

TEST_F(CompletionStreamTest, AStreamThatBreaksOffIsNoSuccess) {
  piece("a");
  EXPECT_EQ(finish().failure, "cut_stream");
}

TEST_F(CompletionStreamTest, AStreamWithoutATokenIsNoSuccess) {
  feed("data: [DONE]\n\n");
  EXPECT_EQ(finish().failure, "empty_stream");
}

TEST_F(CompletionStreamTest, AnErrorInsideTheStreamIsAFailure) {
  piece("a");
  feed("data: {\"error\":{\"message\":\"worker lost\"}}\n\ndata: [DONE]\n\n");
  const auto out = finish();
  EXPECT_EQ(out.failure, "stream_error");
  EXPECT_EQ(out.detail, "worker lost");
}

TEST_F(CompletionStreamTest, MalformedEventsAreAFailure) {
  for (const char* bad : {"data: {", "data: 7", "data: []"}) {
    CompletionStream stream(clock_.now());
    stream.on_bytes(
        R"(data: {"choices":[{"text":"x","finish_reason":"stop"}]})" + std::string("\n") + bad + "\n",
        clock_.now());
    Outcome out;
    stream.finish(HttpReply{.status = 200, .headers = {}, .body = {}}, clock_.now(), out);
    EXPECT_EQ(out.failure, "malformed_reply") << bad;
  }
}

TEST_F(CompletionStreamTest, OddShapesDoNoHarm) {
  for (const char* odd : {R"({"choices":7})", R"({"choices":[7]})", R"({"choices":[]})", R"({"usage":7})",
                          R"({"usage":{"completion_tokens":-1}})", R"({"usage":null})"})
    feed("data: " + std::string(odd) + "\n\n");
  EXPECT_EQ(finish().failure, "empty_stream");
}

TEST_F(CompletionStreamTest, TransferErrorsKeepTheirCause) {
  piece("a");
  EXPECT_EQ(finish(Error{ErrorCode::kDeadlineExceeded, "late"}).failure, "timeout");
  EXPECT_EQ(finish(Error{ErrorCode::kUnavailable, "gone"}).failure, "connection");
  EXPECT_EQ(finish(Error{ErrorCode::kUnavailable, "gone"}).detail, "gone");
}

}  // namespace
}  // namespace lynx
