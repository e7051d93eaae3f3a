#include "loadtest/replay/synthesizer.h"

#include <algorithm>
#include <cmath>

#include "loadtest/replay/mix_bits.h"

namespace lynx {
namespace {

// Begins with the option's name.
Error invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

// Written so that a NaN is out of every range.
bool in_range(double value, double low, double high) { return value >= low && value <= high; }

Status check_lengths(const LogNormal& lengths, const std::string& name) {
  if (!in_range(lengths.median, 1, 1e6)) return invalid(name + "-median: expected 1 to 1e6");
  if (!in_range(lengths.sigma, 0, 5)) return invalid(name + "-sigma: expected 0 to 5");
  if (lengths.most < 1) return invalid(name + "-most: expected at least 1");
  return {};
}

Status check(const SyntheticOptions& o) {
  if (!in_range(o.duration_s, 0.1, 1e6)) return invalid("duration: expected 0.1 to 1e6 s");
  if (!in_range(o.rate, 1e-3, 1e5)) return invalid("rate: expected 0.001 to 1e5 requests per second");
  if (o.rate * o.duration_s > 1e7) return invalid("rate, duration: more than 1e7 requests");
  if (!in_range(o.gap_cv, 0.1, 20)) return invalid("gap-cv: expected 0.1 to 20");
  if (!in_range(o.on_s, 1e-3, 1e6) || !in_range(o.off_s, 1e-3, 1e6))
    return invalid("on, off: expected 0.001 to 1e6 s");
  if (!in_range(o.burst, 1, (o.on_s + o.off_s) / o.on_s))
    return invalid("burst: expected 1 to (on + off) / on: more would need a negative rate while OFF");
  if (const Status s = check_lengths(o.input, "input"); !s) return s;
  return check_lengths(o.output, "output");
}

std::uint32_t draw_length(const LogNormal& lengths, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double tokens = lengths.median * std::exp(lengths.sigma * normal(rng));
  return static_cast<std::uint32_t>(std::clamp(std::round(tokens), 1.0, static_cast<double>(lengths.most)));
}

// The ON/OFF rate as a warp of time: gaps are drawn in units of expected requests, and this turns them into
// seconds.
class BurstClock {
 public:
  BurstClock(const SyntheticOptions& o, std::mt19937_64& rng) : options_(o), rng_(rng) {
    const double on_share = o.on_s / (o.on_s + o.off_s);
    on_rate_ = o.rate * o.burst;
    off_rate_ = std::max(0.0, o.rate * (1 - on_share * o.burst) / (1 - on_share));
    on_ = std::bernoulli_distribution(on_share)(rng_);  // in the long run
    enter_phase();
  }

  // The time at which `requests` more are expected.
  double advance(double requests) {
    while (true) {
      const double rate = on_ ? on_rate_ : off_rate_;
      const double expected_in_phase = rate * (phase_end_ - now_);
      if (rate > 0 && requests <= expected_in_phase) return now_ += requests / rate;
      if (phase_end_ > options_.duration_s)
        return now_ = phase_end_;  // beyond the run: how far does not matter
      requests -= expected_in_phase;
      now_ = phase_end_;
      on_ = !on_;
      enter_phase();
    }
  }

 private:
  void enter_phase() {
    phase_end_ =
        now_ + std::exponential_distribution<double>(1 / (on_ ? options_.on_s : options_.off_s))(rng_);
  }

  const SyntheticOptions& options_;
  std::mt19937_64& rng_;
  double on_rate_ = 0, off_rate_ = 0;
  double now_ = 0, phase_end_ = 0;
  bool on_ = false;
};

double weibull_cv(double k) {
  const double first = std::tgamma(1 + 1 / k);
  return std::sqrt(std::tgamma(1 + 2 / k) / (first * first) - 1);
}

// The CV falls as k grows. k from 0.16 to 20 covers CVs from 20 down to 0.06.
double weibull_shape(double cv) {
  double low = 0.16, high = 20;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (weibull_cv(middle) > cv ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

Result<GapShape> parse_gap_shape(const std::string& text) {
  if (text == "gamma") return GapShape::kGamma;
  if (text == "weibull") return GapShape::kWeibull;
  return invalid("'" + text + "' is not one of gamma, weibull");
}

GapSource::GapSource(GapShape shape, double cv) : shape_(shape) {
  switch (shape) {
    case GapShape::kGamma:
      k_ = 1 / (cv * cv);
      scale_ = 1 / k_;
      return;
    case GapShape::kWeibull:
      k_ = weibull_shape(cv);
      scale_ = 1 / std::tgamma(1 + 1 / k_);
      return;
  }
}

double GapSource::next(std::mt19937_64& rng) {
  return shape_ == GapShape::kGamma ? std::gamma_distribution<double>(k_, scale_)(rng)
                                    : std::weibull_distribution<double>(k_, scale_)(rng);
}

Result<Trace> synthesize(const SyntheticOptions& options) {
  if (const Status status = check(options); !status) return status.error();
  // One generator per purpose: another length changes no arrival.
  std::mt19937_64 arrivals(mix_bits(options.seed, 0)), phases(mix_bits(options.seed, 1)),
      lengths(mix_bits(options.seed, 2));
  GapSource gaps(options.gaps, options.gap_cv);
  BurstClock clock(options, phases);
  Trace trace{.name = "synthetic", .format = "synthetic", .sha256 = {}, .requests = {}, .rejected = {}};
  for (double at = clock.advance(gaps.next(arrivals)); at < options.duration_s;
       at = clock.advance(gaps.next(arrivals))) {
    TraceRequest request;
    request.at = std::chrono::nanoseconds(std::llround(at * 1e9));
    request.input_tokens = draw_length(options.input, lengths);
    request.output_tokens = draw_length(options.output, lengths);
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty())
    return invalid("duration: no request falls into it at this rate and seed: raise it, or the rate");
  return trace;
}

}  // namespace lynx
