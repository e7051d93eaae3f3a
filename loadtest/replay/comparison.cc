#include "loadtest/replay/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "loadtest/replay/mix_bits.h"
#include "loadtest/replay/statistics.h"
#include "loadtest/replay/text_page.h"
#include "loadtest/replay/timeline.h"

namespace lynx {
namespace {

constexpr Clock::duration kSameTime = std::chrono::microseconds(1);

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

struct Pair {
  double a = 0, b = 0;
};

// Draws pairs with replacement, in blocks of neighbours.
class BlockBootstrap {
 public:
  BlockBootstrap(std::span<const Pair> pairs, const CompareOptions& options)
      : pairs_(pairs),
        options_(options),
        block_(static_cast<std::size_t>(std::ceil(std::cbrt(static_cast<double>(pairs.size()))))) {}

  using Statistic = std::function<double(const std::vector<double>& a, const std::vector<double>& b)>;
  Interval interval(const Statistic& statistic) const {
    std::vector<double> a, b, values;
    for (const Pair& pair : pairs_) {
      a.push_back(pair.a);
      b.push_back(pair.b);
    }
    Interval out;
    out.value = statistic(a, b);
    for (std::size_t i = 0; i < options_.resamples; ++i) {
      draw(i, a, b);
      values.push_back(statistic(a, b));
    }
    std::ranges::sort(values);
    out.low = percentile(values, 0.025);
    out.high = percentile(values, 0.975);
    return out;
  }

 private:
  void draw(std::size_t resample, std::vector<double>& a, std::vector<double>& b) const {
    const std::size_t n = pairs_.size();
    const std::uint64_t seed = mix_bits(options_.seed, resample);
    std::size_t from = 0;
    for (std::size_t i = 0; i < n; ++i) {
      from = i % block_ == 0 ? static_cast<std::size_t>(mix_bits(seed, i) % n) : (from + 1) % n;
      a[i] = pairs_[from].a;
      b[i] = pairs_[from].b;
    }
  }

  std::span<const Pair> pairs_;
  const CompareOptions options_;
  const std::size_t block_;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return percentile(values, q);
}

double over(double a, double b) { return b > 0 ? a / b : 0; }

using Value = std::optional<double> (*)(const Outcome&);

PairedLatency paired(const std::string& name,
                     const std::vector<std::pair<const Outcome*, const Outcome*>>& judged, Value value,
                     const CompareOptions& options) {
  PairedLatency out{.name = name};
  std::vector<Pair> pairs;
  std::vector<double> a, b;
  for (const auto& [first, second] : judged) {
    const auto x = value(*first), y = value(*second);
    if (!x || !y) continue;
    pairs.push_back({*x, *y});
    a.push_back(*x);
    b.push_back(*y);
  }
  out.pairs = pairs.size();
  if (pairs.empty()) return out;
  const Summary of_a = summarize(a), of_b = summarize(b);
  out.mean_a_ms = of_a.mean, out.mean_b_ms = of_b.mean;
  out.p50_a_ms = of_a.p50, out.p50_b_ms = of_b.p50;
  out.p99_a_ms = of_a.p99, out.p99_b_ms = of_b.p99;
  const BlockBootstrap bootstrap(pairs, options);
  out.mean_speedup = bootstrap.interval([](const auto& x, const auto& y) { return over(mean(x), mean(y)); });
  out.p50_speedup = bootstrap.interval(
      [](const auto& x, const auto& y) { return over(quantile(x, 0.5), quantile(y, 0.5)); });
  out.p99_speedup = bootstrap.interval(
      [](const auto& x, const auto& y) { return over(quantile(x, 0.99), quantile(y, 0.99)); });
  return out;
}

std::optional<double> ttft_ms(const Outcome& o) {
  return o.completed() ? std::optional(1e3 * seconds(o.ttft)) : std::nullopt;
}
std::optional<double> tpot_ms(const Outcome& o) {
  return o.has_tpot() ? std::optional(1e3 * seconds(o.tpot())) : std::nullopt;
}
// The mean of one request's gaps: a request is the unit that is drawn.
std::optional<double> itl_ms(const Outcome& o) {
  if (!o.completed() || o.itl.empty()) return std::nullopt;
  const auto sum = std::accumulate(o.itl.begin(), o.itl.end(), Clock::duration(0));
  return 1e3 * seconds(sum) / static_cast<double>(o.itl.size());
}
std::optional<double> e2e_ms(const Outcome& o) {
  return o.completed() ? std::optional(1e3 * seconds(o.e2e)) : std::nullopt;
}

Status same_workload(const std::vector<Outcome>& a, const std::vector<Outcome>& b, std::size_t classes) {
  if (a.size() != b.size())
    return invalid("the runs are not of one workload: " + std::to_string(a.size()) + " requests against " +
                   std::to_string(b.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto apart = (a[i].sent_at - a[i].lateness) - (b[i].sent_at - b[i].lateness);
    if (a[i].slo != b[i].slo || apart > kSameTime || apart < -kSameTime)
      return invalid("the runs are not of one workload: request " + std::to_string(i) +
                     " has another class or planned time");
    if (a[i].slo >= classes) return invalid("request " + std::to_string(i) + " has a class without an SLO");
  }
  return {};
}

}  // namespace

Result<Comparison> compare(const std::vector<Outcome>& a, const std::vector<Outcome>& b,
                           const std::vector<SloTarget>& slos, const CompareOptions& options) {
  if (const Status same = same_workload(a, b, slos.size()); !same) return same.error();
  Comparison out;
  std::vector<std::pair<const Outcome*, const Outcome*>> judged;
  std::vector<Pair> met;
  std::vector<double> late_a, late_b;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].warm_up) continue;
    judged.emplace_back(&a[i], &b[i]);
    late_a.push_back(1e3 * seconds(a[i].lateness));
    late_b.push_back(1e3 * seconds(b[i].lateness));
    out.completed_a += a[i].completed() ? 1 : 0;
    out.completed_b += b[i].completed() ? 1 : 0;
    met.push_back({within(slos[a[i].slo], a[i]) ? 1.0 : 0.0, within(slos[b[i].slo], b[i]) ? 1.0 : 0.0});
  }
  if (judged.empty()) return invalid("no request after the warm-up: nothing to compare");
  out.pairs = judged.size();
  out.late_a_ms = summarize(std::move(late_a)).p99;
  out.late_b_ms = summarize(std::move(late_b)).p99;
  for (const Pair& pair : met) {
    out.attainment_a += pair.a / static_cast<double>(met.size());
    out.attainment_b += pair.b / static_cast<double>(met.size());
  }
  out.attainment_gain =
      BlockBootstrap(met, options).interval([](const auto& x, const auto& y) { return mean(y) - mean(x); });
  for (const auto& [name, value] : {std::pair<const char*, Value>{"TTFT", ttft_ms},
                                    {"TPOT", tpot_ms},
                                    {"ITL", itl_ms},
                                    {"end to end", e2e_ms}})
    out.latencies.push_back(paired(name, judged, value, options));
  return out;
}

std::string comparison_text(const Comparison& c) {
  TextPage page;
  page.line("\n%s (A) against %s (B): %zu requests, the same on both sides", c.name_a.c_str(),
            c.name_b.c_str(), c.pairs);
  page.line("                 A, ms      B, ms    A / B, with its 95 %% interval (above 1: B is faster)");
  for (const PairedLatency& l : c.latencies) {
    if (l.pairs == 0) continue;
    const auto row = [&](const char* what, double a, double b, const Interval& speedup) {
      page.line("  %-10s %-4s %9.1f  %9.1f    %.3f  [%.3f, %.3f]", l.name.c_str(), what, a, b, speedup.value,
                speedup.low, speedup.high);
    };
    row("mean", l.mean_a_ms, l.mean_b_ms, l.mean_speedup);
    row("p50", l.p50_a_ms, l.p50_b_ms, l.p50_speedup);
    row("p99", l.p99_a_ms, l.p99_b_ms, l.p99_speedup);
  }
  page.line("  attainment      %8.1f%%  %8.1f%%    %+.1f points  [%+.1f, %+.1f]", 100 * c.attainment_a,
            100 * c.attainment_b, 100 * c.attainment_gain.value, 100 * c.attainment_gain.low,
            100 * c.attainment_gain.high);
  page.line("  completed       %9zu  %9zu", c.completed_a, c.completed_b);
  page.line("  sent late  p99  %9.1f  %9.1f    the generator itself", c.late_a_ms, c.late_b_ms);
  return page.take();
}

}  // namespace lynx
