#include "tests/e2e/api_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lynx::testing {
namespace {

ApiReply call_once(std::uint16_t port, HttpCall call) {
  EventLoop loop;
  HttpClient client(loop, "127.0.0.1", port);
  ApiReply reply;
  const auto handle = client.send(std::move(call), nullptr, [&](Result<HttpReply> result) {
    if (result.ok()) {
      reply.status = result->status;
      reply.body = result->body;
    } else {
      reply.body = result.error().message;
    }
    loop.stop();
  });
  loop.run();
  return reply;
}

void read_logprobs(StreamOutcome& outcome, const nlohmann::json& logprobs) {
  if (!logprobs.contains("tokens")) return;
  for (const auto& token : logprobs["tokens"]) outcome.tokens.push_back(token);
  for (const auto& rivals : logprobs["top_logprobs"]) {
    const bool two = rivals.is_object() && rivals.size() == 2;  // or two tokens of one text
    outcome.margins.push_back(two ? std::abs(rivals.front().get<double>() - rivals.back().get<double>()) : 0);
  }
}

void read_event(StreamOutcome& outcome, std::string_view data) {
  if (data == "[DONE]") {
    outcome.done = true;
    return;
  }
  const auto event = nlohmann::json::parse(data, nullptr, false);
  if (event.is_discarded()) {
    outcome.error_message = "not JSON: " + std::string(data);
    return;
  }
  if (event.contains("error")) outcome.error_message = event["error"].value("message", "error");
  if (event.contains("usage") && event["usage"].is_object())
    outcome.completion_tokens = event["usage"].value("completion_tokens", -1);
  if (!event.contains("choices")) return;
  for (const auto& choice : event["choices"]) {
    if (choice.contains("text")) outcome.text += choice["text"].get<std::string>();
    if (choice.contains("delta")) outcome.text += choice["delta"].value("content", "");
    if (choice.contains("logprobs") && choice["logprobs"].is_object())
      read_logprobs(outcome, choice["logprobs"]);
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string())
      outcome.finish_reason = choice["finish_reason"];
  }
}

// One call's life: start timer -> send -> events -> end, hang-up or error.
struct Stream {
  StreamCall call;
  StreamOutcome outcome;
  SseParser parser;
  std::unique_ptr<Timer> starter, hang_up;
  std::unique_ptr<HttpCallHandle> handle;
  bool over = false;
};

constexpr std::chrono::milliseconds kPoll{1};

class Interrupter {
 public:
  Interrupter(EventLoop& loop, const Interruption& what) : loop_(loop), what_(what) { look_in(what.at); }
  ~Interrupter() {
    if (what_.when && !done_) ADD_FAILURE() << "the streams were over before what was to be hit was there";
  }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

 private:
  void look_in(std::chrono::milliseconds time) {
    timer_ = loop_.after(time, [this] {
      if (what_.when && !what_.when()) return look_in(kPoll);
      done_ = true;
      what_.act();
    });
  }

  EventLoop& loop_;
  const Interruption& what_;
  std::unique_ptr<Timer> timer_;
  bool done_ = false;
};

}  // namespace

ApiReply get(std::uint16_t port, const std::string& path, std::chrono::milliseconds timeout) {
  HttpCall call;
  call.target = path;
  call.timeout = timeout;
  return call_once(port, std::move(call));
}

ApiReply post(std::uint16_t port, const std::string& path, const nlohmann::json& body,
              std::chrono::milliseconds timeout) {
  HttpCall call;
  call.method = "POST";
  call.target = path;
  call.headers = {{"content-type", "application/json"}};
  call.body = body.dump();
  call.timeout = timeout;
  return call_once(port, std::move(call));
}

std::vector<StreamOutcome> run_streams(std::uint16_t port, const std::vector<StreamCall>& calls,
                                       const std::vector<Interruption>& during) {
  EventLoop loop;
  HttpClient client(loop, "127.0.0.1", port);
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t open = calls.size();

  const auto end = [&](Stream& stream) {
    if (std::exchange(stream.over, true)) return;
    stream.outcome.ended = std::chrono::steady_clock::now();
    if (--open == 0) loop.stop();
  };
  const auto start = [&](Stream& stream) {
    HttpCall http;
    http.method = "POST";
    http.target = stream.call.path;
    http.headers = {{"content-type", "application/json"}};
    http.body = stream.call.body.dump();
    http.timeout = stream.call.timeout;
    stream.handle = client.send(
        std::move(http),
        [&stream](std::string_view piece) {
          stream.parser.feed(piece, [&](std::string_view data) { read_event(stream.outcome, data); });
          if (piece.starts_with("{\"error\"")) read_event(stream.outcome, piece);
        },
        [&](Result<HttpReply> reply) {
          if (reply.ok())
            stream.outcome.status = reply->status;
          else
            stream.outcome.transport_error = reply.error();
          end(stream);
        });
    if (!stream.call.hang_up_after) return;
    stream.hang_up = loop.after(*stream.call.hang_up_after, [&] {
      if (stream.over) return;
      stream.outcome.dropped = true;
      stream.handle.reset();
      end(stream);
    });
  };

  for (const StreamCall& call : calls) {
    streams.push_back(std::make_unique<Stream>());
    Stream& stream = *streams.back();
    stream.call = call;
    stream.starter = loop.after(call.start_after, [&] { start(stream); });
  }
  std::vector<std::unique_ptr<Interrupter>> interrupters;
  for (const Interruption& interruption : during)
    interrupters.push_back(std::make_unique<Interrupter>(loop, interruption));
  if (open > 0) loop.run();

  std::vector<StreamOutcome> outcomes;
  outcomes.reserve(streams.size());
  for (auto& stream : streams) outcomes.push_back(std::move(stream->outcome));
  return outcomes;
}

}  // namespace lynx::testing
