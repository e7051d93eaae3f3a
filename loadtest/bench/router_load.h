// A router on a thread of its own, with stub workers and streaming clients on the caller's: how many tokens
// it streams, what a core of it costs, and how long a token is under way from worker to client.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace lynx {

struct RouterLoadOptions {
  std::size_t decode_workers = 4;
  std::size_t streams = 64;  // at any time; spread over the workers
  std::uint32_t tokens_per_stream = 256;
  double tokens_per_second = 0;  // offered; 0 = as fast as the clients get them
  std::chrono::milliseconds warm_up{500};
  std::chrono::milliseconds measured{3000};
};

struct RouterLoadResult {
  double tokens_per_second = 0;  // that reached clients
  double router_cpu_share = 0;   // CPU time of the router's thread over wall time
  std::vector<double> seconds;   // worker's send to client's receipt, per token, ascending
  std::size_t failed = 0;        // calls that did not end well

  double percentile(double p) const;  // of seconds; 0 when there are none
};

// Throws std::runtime_error when the workers do not get registered.
RouterLoadResult run_router_load(const RouterLoadOptions& options);

}  // namespace lynx
