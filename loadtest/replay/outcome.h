// What became of one request, as the client saw it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/clock.h"

namespace lynx {

struct Outcome {
  std::size_t slo = 0;
  bool warm_up = false;              // sent before the figures begin
  Clock::duration sent_at{0};        // since the start of the run
  Clock::duration lateness{0};       // sent_at - planned
  std::uint32_t input_tokens = 0;    // as the server counted them, else as asked
  std::uint32_t asked_tokens = 0;    // to generate
  std::uint32_t output_tokens = 0;   // as the server counted them, else pieces of text received
  Clock::duration ttft{0};           // send to first piece; 0 = none came
  Clock::duration e2e{0};            // send to the end of the stream
  std::vector<Clock::duration> itl;  // between pieces of text
  std::string failure;               // cause, one of a few words that can be counted; empty = completed
  std::string detail;                // what exactly

  bool completed() const { return failure.empty(); }
  bool has_tpot() const { return completed() && output_tokens > 1; }
  Clock::duration tpot() const { return (e2e - ttft) / (output_tokens - 1); }  // has_tpot()
};

}  // namespace lynx
