#include "loadtest/replay/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "loadtest/replay/statistics.h"
#include "loadtest/replay/timeline.h"

namespace lynx {
namespace {

constexpr Clock::duration kSameTime = std::chrono::microseconds(1);

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

struct Pair {
  double a = 0, b = 0;
};

// Of the pairs' two sides, each as a list.
using SidesFigure = double (*)(const std::vector<double>& a, const std::vector<double>& b);

Interval interval_of(std::span<const Pair> pairs, SidesFigure figure, const BootstrapOptions& options) {
  std::vector<double> a(pairs.size()), b(pairs.size());
  return bootstrap_interval(
      pairs.size(),
      [&](std::span<const std::size_t> drawn) {
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          a[i] = pairs[drawn[i]].a;
          b[i] = pairs[drawn[i]].b;
        }
        return figure(a, b);
      },
      options);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return percentile(values, q);
}

double over(double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN(); }

using Value = std::optional<double> (*)(const Outcome&);

PairedLatency paired(const std::string& name,
                     const std::vector<std::pair<const Outcome*, const Outcome*>>& judged, Value value,
                     const BootstrapOptions& options) {
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
  out.mean_speedup = interval_of(
      pairs, [](const auto& x, const auto& y) { return over(mean(x), mean(y)); }, options);
  out.p50_speedup = interval_of(
      pairs, [](const auto& x, const auto& y) { return over(quantile(x, 0.5), quantile(y, 0.5)); }, options);
  out.p99_speedup = interval_of(
      pairs, [](const auto& x, const auto& y) { return over(quantile(x, 0.99), quantile(y, 0.99)); },
      options);
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
                           const std::vector<SloTarget>& slos, const BootstrapOptions& options) {
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
  out.attainment_gain = interval_of(
      met, [](const auto& x, const auto& y) { return mean(y) - mean(x); }, options);
  for (const auto& [name, value] : {std::pair<const char*, Value>{"TTFT", ttft_ms},
                                    {"TPOT", tpot_ms},
                                    {"ITL", itl_ms},
                                    {"end to end", e2e_ms}})
    out.latencies.push_back(paired(name, judged, value, options));
  return out;
}

Result<Comparison> compare(const RunView& a, const RunView& b, const BootstrapOptions& options) {
  auto out = compare(a.outcomes, b.outcomes, a.report.facts.slos, options);
  if (!out) return out;
  out->name_a = a.name;
  out->name_b = b.name;
  out->experts = compare_experts(a.fleet, b.fleet, a.report.facts.warm_up_s, options);
  return out;
}

}  // namespace lynx
