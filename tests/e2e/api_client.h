// A blocking client of the router for tests: its own event loop on the calling thread, many calls at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/net/http_client.h"

namespace lynx::testing {

struct ApiReply {
  int status = 0;
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

// One streamed completion as the client saw it.
struct StreamOutcome {
  std::optional<Error> transport_error;  // connection lost, timeout
  int status = 0;
  std::string text;
  std::vector<std::string> tokens;  // texts of the tokens, when the call asked for logprobs
  std::vector<double> margins;      // nats between the two likeliest, where it asked for two of each
  std::string finish_reason;
  std::string error_message;   // of an error event or body
  int completion_tokens = -1;  // from the usage block, when there was one
  bool done = false;           // [DONE] seen
  bool dropped = false;        // by the test
  std::chrono::steady_clock::time_point ended;
  bool finished_well() const { return status == 200 && done && error_message.empty(); }
};

struct StreamCall {
  nlohmann::json body;
  std::string path = "/v1/completions";
  std::chrono::milliseconds start_after{0};
  // The client hangs up this long after sending; absent = stays to the end.
  std::optional<std::chrono::milliseconds> hang_up_after;
  std::chrono::milliseconds timeout{120'000};
};

ApiReply get(std::uint16_t port, const std::string& path,
             std::chrono::milliseconds timeout = std::chrono::seconds(5));
ApiReply post(std::uint16_t port, const std::string& path, const nlohmann::json& body,
              std::chrono::milliseconds timeout = std::chrono::seconds(60));

// Done on the loop in the middle of streams (to kill a worker, say): not before `at`, and as soon as `when`
// holds. A test fails whose streams are over before that; what has no condition and comes too late is left
// out.
struct Interruption {
  std::chrono::milliseconds at{0};
  std::function<void()> act;
  std::function<bool()> when = {};  // asked every millisecond; conditions.h
};

// Runs every call, each at its start time, and returns when the last has ended.
std::vector<StreamOutcome> run_streams(std::uint16_t port, const std::vector<StreamCall>& calls,
                                       const std::vector<Interruption>& during = {});

}  // namespace lynx::testing
