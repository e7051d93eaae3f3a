#include <algorithm>
#include <cmath>
#include <limits>

#include "loadtest/replay/html_report.h"
#include "loadtest/replay/statistics.h"
#include "loadtest/replay/svg_chart.h"

namespace lynx {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr int kColours = 8;
constexpr const char* kSeconds = "seconds since the start";

using BinValue = double (*)(const TimeBin&, double bin_s);

std::vector<double> middles(const Timeline& timeline) {
  std::vector<double> out;
  for (const TimeBin& bin : timeline.bins) out.push_back(bin.at_s + timeline.bin_s / 2);
  return out;
}

std::string label(const std::vector<RunView>& runs, const RunView& run, const std::string& what) {
  if (runs.size() == 1) return what;
  return what.empty() ? run.name : run.name + ": " + what;
}

// Curves over time, one for every run and value. One run: a colour per value; several: a colour per run.
struct Named {
  const char* name;
  BinValue value;
};
Chart over_time(const std::vector<RunView>& runs, const std::string& title, const std::string& unit,
                const std::vector<Named>& values) {
  Chart chart{.title = title, .x_label = kSeconds, .y_label = unit};
  int at = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const Named& named : values) {
      Curve curve{.name = label(runs, runs[r], named.name), .x = middles(runs[r].timeline), .y = {}};
      for (const TimeBin& bin : runs[r].timeline.bins)
        curve.y.push_back(named.value(bin, runs[r].timeline.bin_s));
      curve.colour = at++ % kColours;
      curve.stroke = r == 0 ? Stroke::kSolid : Stroke::kDashed;
      chart.curves.push_back(std::move(curve));
    }
  chart.shaded_until = runs[0].report.facts.warm_up_s;
  return chart;
}

double when(std::size_t count, double value) { return count > 0 ? value : kNothing; }
double rate(double amount, double bin_s) { return bin_s > 0 ? amount / bin_s : kNothing; }

// The objectives of the classes that were asked for anything.
void mark_objectives(Chart& chart, const Report& report, std::chrono::microseconds SloTarget::*objective) {
  for (const ClassReport& c : report.classes)
    if (c.requests > 0 && (c.slo.*objective).count() > 0)
      chart.marks.emplace_back(static_cast<double>((c.slo.*objective).count()) / 1000, c.slo.name);
}

std::string arrivals(const std::vector<RunView>& runs) {
  Chart chart{.title = "Arrivals and completions", .x_label = kSeconds, .y_label = "requests per second"};
  chart.shaded_until = runs[0].report.facts.warm_up_s;
  const Timeline& first = runs[0].timeline;
  Curve offered{.name = "offered", .x = {}, .y = {}, .colour = 7, .stroke = Stroke::kBars};
  for (const TimeBin& bin : first.bins) {
    offered.x.push_back(bin.at_s);
    offered.y.push_back(rate(static_cast<double>(bin.offered), first.bin_s));
  }
  chart.curves.push_back(std::move(offered));
  const auto done = over_time(
      runs, "", "",
      {{"completed", [](const TimeBin& b, double s) { return rate(static_cast<double>(b.completed), s); }}});
  chart.curves.insert(chart.curves.end(), done.curves.begin(), done.curves.end());
  return svg_figure(chart);
}

std::string load_charts(const std::vector<RunView>& runs) {
  std::string out = arrivals(runs);
  out += svg_figure(
      over_time(runs, "Requests in flight", "most in each bin",
                {{"", [](const TimeBin& b, double) { return static_cast<double>(b.in_flight); }}}));
  out += svg_figure(
      over_time(runs, "Output", "tokens per second",
                {{"", [](const TimeBin& b, double s) { return rate(static_cast<double>(b.tokens), s); }}}));
  Chart attainment =
      over_time(runs, "SLO attainment", "% of the requests sent then",
                {{"", [](const TimeBin& b, double) {
                    return when(b.sent, 100.0 * static_cast<double>(b.met) / static_cast<double>(b.sent));
                  }}});
  attainment.y_top = 100;
  return out + svg_figure(attainment);
}

// p50, p90 and p99 of one run; of two, p50 and p99.
template <Quantiles TimeBin::*kMetric, double Quantiles::*kQuantile>
double latency(const TimeBin& bin, double) {
  return when((bin.*kMetric).count, bin.*kMetric.*kQuantile);
}

template <Quantiles TimeBin::*kMetric>
std::vector<Named> percentiles(const std::vector<RunView>& runs) {
  const Named p50{"p50", latency<kMetric, &Quantiles::p50>}, p90{"p90", latency<kMetric, &Quantiles::p90>},
      p99{"p99", latency<kMetric, &Quantiles::p99>};
  if (runs.size() > 1) return {p50, p99};
  return {p50, p90, p99};
}

std::string latency_charts(const std::vector<RunView>& runs) {
  Chart ttft =
      over_time(runs, "TTFT over time", "ms, by time of sending", percentiles<&TimeBin::ttft_ms>(runs));
  mark_objectives(ttft, runs[0].report, &SloTarget::ttft);
  Chart tpot =
      over_time(runs, "TPOT over time", "ms, by time of sending", percentiles<&TimeBin::tpot_ms>(runs));
  mark_objectives(tpot, runs[0].report, &SloTarget::tpot);
  const Chart itl =
      over_time(runs, "ITL over the window", "ms, by time of the token", percentiles<&TimeBin::itl_ms>(runs));
  const Chart mean =
      over_time(runs, "Mean ITL over the window", "ms", {{"", latency<&TimeBin::itl_ms, &Quantiles::mean>}});
  return svg_figure(ttft) + svg_figure(tpot) + svg_figure(itl) + svg_figure(mean);
}

using Samples = std::vector<double> (*)(const Outcome&);

// The share of the samples at or below x, at 200 quantiles.
std::string cdf(const std::vector<RunView>& runs, const std::string& title, Samples samples) {
  Chart chart{.title = title + ", distribution", .x_label = "ms", .y_label = "% at or below"};
  chart.log_x = true;
  chart.y_top = 100;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::vector<double> all;
    for (const Outcome& outcome : runs[r].outcomes)
      if (outcome.completed() && !outcome.warm_up)
        for (const double value : samples(outcome)) all.push_back(value);
    std::ranges::sort(all);
    Curve curve{.name = label(runs, runs[r], ""), .x = {}, .y = {}};
    for (int i = 0; i <= 200 && !all.empty(); ++i) {
      curve.x.push_back(percentile(all, i / 200.0));
      curve.y.push_back(i / 2.0);
    }
    curve.colour = static_cast<int>(r);
    curve.stroke = r == 0 ? Stroke::kSolid : Stroke::kDashed;
    chart.curves.push_back(std::move(curve));
  }
  return svg_figure(chart);
}

std::string distribution_charts(const std::vector<RunView>& runs) {
  std::string out =
      cdf(runs, "TTFT", [](const Outcome& o) { return std::vector<double>{1e3 * seconds(o.ttft)}; });
  out += cdf(runs, "TPOT", [](const Outcome& o) {
    return o.has_tpot() ? std::vector<double>{1e3 * seconds(o.tpot())} : std::vector<double>{};
  });
  out += cdf(runs, "ITL", [](const Outcome& o) {
    std::vector<double> gaps;
    for (const Clock::duration gap : o.itl) gaps.push_back(1e3 * seconds(gap));
    return gaps;
  });
  return out +
         cdf(runs, "End to end", [](const Outcome& o) { return std::vector<double>{1e3 * seconds(o.e2e)}; });
}

Chart fleet_chart(const std::vector<RunView>& runs, const std::string& title, const std::string& unit,
                  const std::vector<std::pair<const char*, std::vector<double> FleetCurves::*>>& fields) {
  Chart chart{.title = title, .x_label = kSeconds, .y_label = unit};
  int colour = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const auto& [name, field] : fields)
      chart.curves.push_back({.name = label(runs, runs[r], name),
                              .x = runs[r].fleet.at_s,
                              .y = runs[r].fleet.*field,
                              .colour = colour++ % kColours,
                              .stroke = r == 0 ? Stroke::kSolid : Stroke::kDashed});
  chart.shaded_until = runs[0].report.facts.warm_up_s;
  return chart;
}

Chart worker_chart(const std::vector<RunView>& runs, const std::string& title, const std::string& unit,
                   std::vector<double> WorkerCurves::*field, double scale, bool decode_only) {
  Chart chart{.title = title, .x_label = kSeconds, .y_label = unit};
  int colour = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const WorkerCurves& worker : runs[r].workers) {
      if (decode_only && !worker.decodes) continue;
      Curve curve{.name = label(runs, runs[r], worker.name), .x = worker.at_s, .y = worker.*field};
      for (double& value : curve.y) value *= scale;
      curve.colour = colour++ % kColours;
      curve.stroke = r == 0 ? Stroke::kSolid : Stroke::kDashed;
      chart.curves.push_back(std::move(curve));
    }
  chart.shaded_until = runs[0].report.facts.warm_up_s;
  return chart;
}

std::string worker_charts(const std::vector<RunView>& runs) {
  std::string out =
      svg_figure(fleet_chart(runs, "Unique experts", "per layer-step of the decode workers",
                             {{"routed", &FleetCurves::routed}, {"activated", &FleetCurves::activated}}));
  out += svg_figure(
      worker_chart(runs, "Decode batch per worker", "sequences per step", &WorkerCurves::batch, 1, true));
  Chart busy = worker_chart(runs, "Time in steps per worker", "%", &WorkerCurves::busy, 100, false);
  busy.y_top = 100;
  out += svg_figure(busy);
  Chart blocks = worker_chart(runs, "KV pool in use per worker", "% of its blocks",
                              &WorkerCurves::blocks_used, 100, false);
  blocks.y_top = 100;
  out += svg_figure(blocks);
  out += svg_figure(fleet_chart(runs, "KV moved", "bytes per second", {{"", &FleetCurves::kv_bytes_per_s}}));
  return out + svg_figure(fleet_chart(runs, "KV hand-over", "ms, mean", {{"", &FleetCurves::kv_ms}}));
}

}  // namespace

std::string html_charts(const std::vector<RunView>& runs) {
  const auto section = [](const char* title, const std::string& figures) {
    return std::string("<h2>") + title + "</h2>\n<div class=\"charts\">\n" + figures + "</div>\n";
  };
  std::string out = section("Load", load_charts(runs)) + section("Latency over time", latency_charts(runs)) +
                    section("Distributions", distribution_charts(runs));
  const bool metrics = std::ranges::any_of(runs, [](const RunView& run) { return !run.fleet.at_s.empty(); });
  if (metrics) return out + section("Workers", worker_charts(runs));
  return out +
         "<h2>Workers</h2>\n<p class=\"soft\">No worker's metrics were read: name them with --metrics to see "
         "experts, batches and KV over time.</p>\n";
}

}  // namespace lynx
