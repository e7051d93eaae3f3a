// A recorded (or made-up) list of requests: when each came and how long it was.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lynx {

struct TraceRequest {
  std::chrono::nanoseconds at{0};   // in a Trace: since its first request
  std::uint32_t input_tokens = 0;   // at least 1
  std::uint32_t output_tokens = 0;  // at least 1
  // One per block of Trace::block_tokens; the same id is the same text. Empty: no sharing known.
  std::vector<std::uint64_t> hash_ids{};
};

// Rows of a file that are no request: counted, and shown with line and reason.
struct RejectedRows {
  static constexpr std::size_t kShown = 20;
  struct Row {
    std::size_t line = 0;  // 1 = first of the file
    std::string reason;
  };

  std::size_t count = 0;
  std::vector<Row> first;  // at most kShown
  std::map<std::string, std::size_t> by_reason;

  void add(std::size_t line, const std::string& reason);
};

struct Trace {
  std::string name;                    // file name, or "synthetic"
  std::string format;                  // azure, burstgpt, mooncake, qwen, synthetic
  std::string sha256;                  // of the file, hex; empty when synthetic
  std::uint32_t block_tokens = 0;      // 0 = the format has no prefix identity
  std::vector<TraceRequest> requests;  // by time; equal times in file order
  RejectedRows rejected;
};

}  // namespace lynx
