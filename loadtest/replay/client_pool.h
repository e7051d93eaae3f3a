// A pool of clients as ServeGen publishes them (arXiv 2505.09999): not requests, but for each client and
// window of time the rate and the shape of its arrivals, and the distribution of its lengths. From it a trace
// is drawn, so many seconds from any moment of the recorded time.
//
// A folder holds chunk-<client>-trace.csv (window_start_s,rate_rps,cv,pattern,shape,scale; no header; pattern
// Gamma, Weibull or empty when idle) and, where published, chunk-<client>-dataset.json (window_start_s ->
// input_tokens, output_tokens: each a string "{tokens: probability, ...}").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "loadtest/replay/synthesizer.h"
#include "loadtest/replay/trace.h"

namespace lynx {

struct ArrivalWindow {
  double start_s = 0;
  double rate = 0;  // requests per second; 0 = idle
  GapShape shape = GapShape::kGamma;
  double k = 1;  // of the distribution of the gaps
};

// Tokens by probability.
struct LengthTable {
  std::vector<std::uint32_t> tokens{};  // ascending
  std::vector<double> upto{};           // cumulated and normalised: the last is 1
  bool empty() const { return tokens.empty(); }
  std::uint32_t draw(double u) const;  // u in [0, 1)
};
Result<LengthTable> parse_length_table(const std::string& text);  // "{45: 0.25, 60: 0.75}"; "{}" is empty

struct PoolClient {
  struct Lengths {
    LengthTable input{}, output{};
  };
  std::string name;
  std::vector<ArrivalWindow> windows;  // side by side, all of one width
  std::map<double, Lengths> lengths;   // by the begin of their window; empty = none published
};

struct ClientPool {
  std::string name{};
  double window_s = 600;  // of every window; ServeGen's, where no client has two
  double span_s = 0;      // end of the last window
  std::vector<PoolClient> clients{};
};

// Errors name file and line.
Result<ClientPool> read_client_pool(const std::string& folder);

struct PoolOptions {
  double start_s = 0;  // of the recorded time
  double duration_s = 60;
  double rate = 0;  // requests per second, mean over the duration; 0 = as recorded
  LogNormal input{.median = 256, .sigma = 1, .most = 8192};  // for clients without published lengths
  LogNormal output{.median = 128, .sigma = 1, .most = 2048};
  std::uint64_t seed = 0;
};

// Each client's arrivals keep the gaps' shape within a window and fill it, as ServeGen's do; the number in a
// window is its expected one rounded at random (ServeGen rounds up, which at small shares of many clients
// would add load that was never there). Error, the option first: nothing falls into the time, or it is
// out of its range.
Result<Trace> draw_trace(const ClientPool& pool, const PoolOptions& options);

}  // namespace lynx
