#include "loadtest/replay/client_pool.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "loadtest/replay/mix_bits.h"

namespace lynx {
namespace {

// Begins with the option's name.
Error invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

std::uint32_t draw_log_normal(const LogNormal& lengths, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double tokens = lengths.median * std::exp(lengths.sigma * normal(rng));
  return static_cast<std::uint32_t>(std::clamp(std::round(tokens), 1.0, static_cast<double>(lengths.most)));
}

double draw_gap(const ArrivalWindow& window, std::mt19937_64& rng) {
  switch (window.shape) {
    case GapShape::kGamma:
      return std::gamma_distribution<double>(window.k, 1)(rng);
    case GapShape::kWeibull:
      return std::weibull_distribution<double>(window.k, 1)(rng);
  }
  return 1;
}

// The published lengths of the window that holds `at`, or of the nearest that has any.
const PoolClient::Lengths* lengths_at(const PoolClient& client, double at) {
  const PoolClient::Lengths* best = nullptr;
  double distance = 0;
  for (const auto& [start, lengths] : client.lengths) {
    if (lengths.input.empty() || lengths.output.empty()) continue;
    // A window counts from its begin: one that begins later is further than one that has just begun.
    const double apart = start <= at ? at - start : 2 * (start - at);
    if (best == nullptr || apart < distance) {
      best = &lengths;
      distance = apart;
    }
  }
  return best;
}

class Draw {
 public:
  Draw(const ClientPool& pool, const PoolOptions& options, double scale)
      : pool_(pool), options_(options), scale_(scale) {}

  void add(std::size_t client, Trace& trace) const {
    const PoolClient& of = pool_.clients[client];
    for (std::size_t w = 0; w < of.windows.size(); ++w) {
      const ArrivalWindow& window = of.windows[w];
      if (window.rate <= 0 || window.start_s + pool_.window_s <= options_.start_s || window.start_s >= end())
        continue;
      // A generator per client and window: another slice of time changes none of the arrivals it shares.
      std::mt19937_64 rng(mix_bits(mix_bits(options_.seed, client), w));
      for (const double at : arrivals(window, rng)) {
        TraceRequest request = draw_lengths(of, at, rng);
        if (at < options_.start_s || at >= end()) continue;
        request.at = std::chrono::nanoseconds(std::llround((at - options_.start_s) * 1e9));
        trace.requests.push_back(std::move(request));
      }
    }
  }

 private:
  double end() const { return options_.start_s + options_.duration_s; }

  std::vector<double> arrivals(const ArrivalWindow& window, std::mt19937_64& rng) const {
    const double expected = window.rate * scale_ * pool_.window_s;
    const auto count = static_cast<std::size_t>(expected + std::uniform_real_distribution<double>()(rng));
    std::vector<double> at(count + 1);  // one gap more: the last reaches the window's end
    double sum = 0;
    for (double& gap : at) gap = sum += draw_gap(window, rng);
    at.pop_back();
    for (double& moment : at) moment = window.start_s + (sum > 0 ? moment / sum : 0.5) * pool_.window_s;
    return at;
  }

  TraceRequest draw_lengths(const PoolClient& client, double at, std::mt19937_64& rng) const {
    std::uniform_real_distribution<double> uniform;
    TraceRequest request;
    if (const auto* lengths = lengths_at(client, at)) {
      request.input_tokens = lengths->input.draw(uniform(rng));
      request.output_tokens = lengths->output.draw(uniform(rng));
    } else {
      request.input_tokens = draw_log_normal(options_.input, rng);
      request.output_tokens = draw_log_normal(options_.output, rng);
    }
    return request;
  }

  const ClientPool& pool_;
  const PoolOptions& options_;
  const double scale_;
};

// Requests that the pool as recorded brings in [start, start + duration), expected.
double expected_requests(const ClientPool& pool, const PoolOptions& o) {
  double sum = 0;
  for (const PoolClient& client : pool.clients)
    for (const ArrivalWindow& window : client.windows) {
      const double from = std::max(window.start_s, o.start_s);
      const double to = std::min(window.start_s + pool.window_s, o.start_s + o.duration_s);
      if (to > from) sum += window.rate * (to - from);
    }
  return sum;
}

// A window is drawn whole, even where a slice of it is asked for, so that each slice holds the same arrivals.
constexpr double kMostDrawn = 3e7;

// Requests of the windows that the time touches, as recorded.
double requests_in_windows(const ClientPool& pool, const PoolOptions& o) {
  double sum = 0;
  for (const PoolClient& client : pool.clients)
    for (const ArrivalWindow& window : client.windows)
      if (window.start_s + pool.window_s > o.start_s && window.start_s < o.start_s + o.duration_s)
        sum += window.rate * pool.window_s;
  return sum;
}

Status check(const ClientPool& pool, const PoolOptions& o) {
  if (!(o.duration_s > 0 && o.duration_s <= 1e7)) return invalid("duration: expected 0 to 1e7 s");
  if (!(o.start_s >= 0 && o.start_s < pool.span_s))
    return invalid("start: " + pool.name + " covers " + std::to_string(static_cast<long>(pool.span_s)) +
                   " s");
  if (!(o.rate >= 0 && o.rate <= 1e5)) return invalid("rate: expected 0 to 1e5 requests per second");
  if (o.rate * o.duration_s > 1e7) return invalid("rate, duration: more than 1e7 requests");
  return {};
}

}  // namespace

std::uint32_t LengthTable::draw(double u) const {
  const auto at = std::ranges::upper_bound(upto, u);
  return tokens[static_cast<std::size_t>(std::min(at - upto.begin(), std::ptrdiff_t(tokens.size()) - 1))];
}

Result<Trace> draw_trace(const ClientPool& pool, const PoolOptions& options) {
  if (const Status status = check(pool, options); !status) return status.error();
  const double expected = expected_requests(pool, options);
  if (expected <= 0) return invalid("start, duration: every client of " + pool.name + " is idle then");
  if (options.rate == 0 && expected > 1e7) return invalid("duration: more than 1e7 requests");
  const double scale = options.rate > 0 ? options.rate * options.duration_s / expected : 1;
  if (requests_in_windows(pool, options) * scale > kMostDrawn)
    return invalid("rate: more than 3e7 requests in the windows of " +
                   std::to_string(static_cast<long>(pool.window_s)) + " s of " + pool.name +
                   " that the time touches");

  Trace trace{.name = pool.name, .format = "servegen", .sha256 = {}, .requests = {}, .rejected = {}};
  const Draw draw(pool, options, scale);
  for (std::size_t i = 0; i < pool.clients.size(); ++i) draw.add(i, trace);
  if (trace.requests.empty())
    return invalid("duration, rate: no request of " + pool.name +
                   " falls into that time at this rate and seed");
  std::ranges::stable_sort(trace.requests, {}, &TraceRequest::at);
  return trace;
}

}  // namespace lynx
