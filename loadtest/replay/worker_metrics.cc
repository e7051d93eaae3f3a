#include "loadtest/replay/worker_metrics.h"

#include <charconv>
#include <cmath>

namespace lynx {
namespace {

std::string_view name_of(std::string_view series) { return series.substr(0, series.find('{')); }

// The value of a label in `name{a="x",b="y"}`, as written between the quotes.
std::string_view label_value(std::string_view series, std::string_view label) {
  for (std::size_t at = series.find('{'); at != std::string_view::npos; at = series.find(label, at + 1)) {
    const std::string_view rest = series.substr(at);
    if (!rest.starts_with(label) || !rest.substr(label.size()).starts_with("=\"")) continue;
    if (series[at - 1] != '{' && series[at - 1] != ',') continue;
    const std::string_view value = rest.substr(label.size() + 2);
    return value.substr(0, value.find('"'));
  }
  return {};
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

void MetricsText::add(std::string_view exposition) {
  while (!exposition.empty()) {
    const std::size_t end = std::min(exposition.find('\n'), exposition.size());
    std::string_view line = exposition.substr(0, end);
    exposition.remove_prefix(std::min(end + 1, exposition.size()));
    if (line.empty() || line.front() == '#') continue;
    // A label value may hold blanks: the value starts after the closing brace.
    const std::size_t brace = line.rfind('}');
    const std::size_t blank = line.find(' ', brace == std::string_view::npos ? 0 : brace);
    if (blank == std::string_view::npos) continue;
    const std::string_view text = line.substr(blank + 1);
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value)) continue;
    samples_[std::string(line.substr(0, blank))] += value;
  }
}

void MetricsText::merge(const MetricsText& other) {
  for (const auto& [series, value] : other.samples_) samples_[series] += value;
}

double MetricsText::sum(std::string_view name, std::string_view label) const {
  double total = 0;
  for (auto at = samples_.lower_bound(name); at != samples_.end() && at->first.starts_with(name); ++at)
    if (name_of(at->first) == name && at->first.find(label) != std::string::npos) total += at->second;
  return total;
}

std::map<std::string, double> MetricsText::by_label(std::string_view name, std::string_view label) const {
  std::map<std::string, double> totals;
  for (auto at = samples_.lower_bound(name); at != samples_.end() && at->first.starts_with(name); ++at)
    if (name_of(at->first) == name) totals[std::string(label_value(at->first, label))] += at->second;
  return totals;
}

MetricsText MetricsText::since(const MetricsText& before) const {
  MetricsText out;
  for (const auto& [series, value] : samples_) {
    const auto was = before.samples_.find(series);
    const bool continued = was != before.samples_.end() && was->second <= value;
    out.samples_[series] = continued ? value - was->second : value;
  }
  return out;
}

namespace {

double count(const MetricsText& run, const std::string& histogram, std::string_view label = {}) {
  return run.sum(histogram + "_count", label);
}
double mean(const MetricsText& run, const std::string& histogram, std::string_view label = {}) {
  return ratio(run.sum(histogram + "_sum", label), count(run, histogram, label));
}

bool mostly_decodes(const MetricsText& run) {
  return count(run, "lynx_step_seconds", "phase=\"decode\"") >
         count(run, "lynx_step_seconds", "phase=\"prefill\"");
}

}  // namespace

WorkerReport worker_report(const std::vector<WorkerScrapes>& workers) {
  MetricsText all, decode;
  for (const WorkerScrapes& worker : workers) {
    const MetricsText run = worker.after.since(worker.before);
    all.merge(run);
    if (mostly_decodes(run)) decode.merge(run);
  }
  WorkerReport out;
  out.layer_steps = count(decode, "lynx_unique_experts", "stage=\"activated\"");
  out.routed_mean = mean(decode, "lynx_unique_experts", "stage=\"routed\"");
  out.activated_mean = mean(decode, "lynx_unique_experts", "stage=\"activated\"");
  out.remapped_share =
      ratio(decode.sum("lynx_remapped_assignments_total"), decode.sum("lynx_assignments_total"));
  out.retained_mass_mean = mean(decode, "lynx_retained_router_mass");
  for (const auto& [transport, bytes] : all.by_label("lynx_kv_transfer_bytes_total", "transport"))
    if (bytes > 0) out.kv_bytes[transport] = bytes;
  out.kv_transfers = count(all, "lynx_kv_transfer_seconds");
  out.kv_seconds_mean = mean(all, "lynx_kv_transfer_seconds");
  out.kv_exposed_seconds_mean = mean(all, "lynx_kv_transfer_exposed_seconds");
  out.kv_failures = all.sum("lynx_kv_transfer_failures_total");
  return out;
}

}  // namespace lynx
