#include <cmath>
#include <cstdio>

#include "loadtest/replay/report.h"
#include "loadtest/replay/text_page.h"

namespace lynx {
namespace {

std::string bytes(double amount) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; amount >= 1000 && unit + 1 < std::size(units); ++unit) amount /= 1000;
  char out[32];
  std::snprintf(out, sizeof out, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
  return out;
}

std::string objective(std::chrono::microseconds time) {
  if (time.count() == 0) return "-";
  char out[32];
  std::snprintf(out, sizeof out, "%g ms", static_cast<double>(time.count()) / 1000);
  return out;
}

double percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void trace_lines(TextPage& page, const RunFacts& facts) {
  page.line("trace       %s (%s)%s", facts.trace_name.c_str(), facts.trace_format.c_str(),
            facts.interrupted ? ", interrupted" : "");
  if (facts.options.slice)
    page.line("slice       from %g s, %g s long",
              std::chrono::duration<double>(facts.options.slice->start).count(),
              std::chrono::duration<double>(facts.options.slice->duration).count());
  page.line("pace        speedup %g, lengths %s by %.3g%s, seed %llu", facts.options.speedup,
            to_string(facts.options.lengths).c_str(), facts.length_factor,
            facts.options.spread_within_tick ? ", spread within ticks" : "",
            static_cast<unsigned long long>(facts.options.seed));
  if (facts.rejected.count == 0) return;
  page.line("rejected    %zu rows of the file", facts.rejected.count);
  for (const auto& [reason, count] : facts.rejected.by_reason)
    page.line("            %zu x %s", count, reason.c_str());
}

void request_lines(TextPage& page, const Report& r) {
  page.heading("Requests");
  page.line("  done %zu of %zu in %.1f s   failed %zu   peak in flight %zu", r.completed, r.requests,
            r.judged_s(), r.requests - r.completed, r.peak_concurrency);
  if (r.warm_up_requests > 0)
    page.line("  %zu more in the first %g s were the warm-up", r.warm_up_requests, r.facts.warm_up_s);
  page.line("  offered %.2f requests/s, %.1f output tokens/s over %.1f s of arrivals",
            r.offered.requests_per_s, r.offered.output_tokens_per_s, r.offered.seconds);
  for (const auto& [cause, count] : r.failures)
    page.line("    %zu x %s: %s", count, cause.c_str(), r.first_detail.at(cause).c_str());
  page.line("  achieved %.2f requests/s   %.1f output tokens/s (best second %.0f)   %.1f tokens/s in and out",
            r.per_second(static_cast<double>(r.completed)),
            r.per_second(static_cast<double>(r.output_tokens)), r.peak_output_tokens_per_s,
            r.per_second(static_cast<double>(r.input_tokens + r.output_tokens)));
  page.line("  %llu tokens in, %llu out", static_cast<unsigned long long>(r.input_tokens),
            static_cast<unsigned long long>(r.output_tokens));
}

void summary_line(TextPage& page, const char* name, const Summary& s) {
  if (s.count == 0) return page.line("  %-10s %10s", name, "none");
  page.line("  %-10s %10.1f %10.1f %10.1f %10.1f %10.1f", name, s.mean, s.p50, s.p90, s.p99, s.max);
}

void latency_lines(TextPage& page, const Report& r) {
  page.heading("Latency, ms        mean        p50        p90        p99        max");
  if (r.completed > 0) {
    summary_line(page, "TTFT", r.ttft_ms);
    summary_line(page, "TPOT", r.tpot_ms);
    summary_line(page, "ITL", r.itl_ms);
    summary_line(page, "end to end", r.e2e_ms);
  } else {
    page.line("  none completed");
  }
  summary_line(page, "sent late", r.lateness_ms);
}

void slo_lines(TextPage& page, const Report& r) {
  page.heading(
      "Service classes       TTFT        TPOT   requests   TTFT met   TPOT met   both met   goodput/s");
  for (const ClassReport& c : r.classes)
    page.line("  %-12s %11s %11s %10zu %9.1f%% %9.1f%% %9.1f%% %11.2f", c.slo.name.c_str(),
              objective(c.slo.ttft).c_str(), objective(c.slo.tpot).c_str(), c.requests,
              percent(c.met_ttft, c.requests), percent(c.met_tpot, c.requests), percent(c.met, c.requests),
              r.per_second(static_cast<double>(c.met)));
  page.line("  %-12s %11s %11s %10zu %9s  %9s  %9.1f%% %11.2f", "all", "", "", r.requests, "", "",
            percent(r.met(), r.requests), r.per_second(static_cast<double>(r.met())));
}

void worker_lines(TextPage& page, const Report& r) {
  page.heading("Workers");
  const WorkerReport& w = r.workers;
  if (w.layer_steps > 0)
    page.line(
        "  unique experts per layer-step: routed %.1f -> activated %.1f (%.0f layer-steps); "
        "%.1f%% of assignments moved, router mass kept %.1f%%",
        w.routed_mean, w.activated_mean, w.layer_steps, 100 * w.remapped_share, 100 * w.retained_mass_mean);
  else if (r.facts.metrics_asked == 0)
    page.line("  unique experts: not known (name the workers with --metrics)");
  else if (r.facts.metrics_problems.size() == r.facts.metrics_asked)
    page.line("  unique experts: not known, none of the workers could be scraped");
  else
    page.line("  unique experts: none of the workers scraped made a decode step");
  double total = 0;
  for (const auto& [transport, amount] : w.kv_bytes) total += amount;
  if (total == 0) page.line("  KV moved: none seen");
  for (const auto& [transport, amount] : w.kv_bytes)
    page.line("  KV moved: %s over %s", bytes(amount).c_str(), transport.c_str());
  if (w.kv_transfers > 0)
    page.line("  KV hand-over: %.0f, mean %.2f ms, of which %.2f ms after the last layer; %.0f failed pushes",
              w.kv_transfers, 1e3 * w.kv_seconds_mean, 1e3 * w.kv_exposed_seconds_mean, w.kv_failures);
  for (const std::string& problem : r.facts.metrics_problems) page.line("  not scraped: %s", problem.c_str());
}

}  // namespace

std::string report_text(const Report& report) {
  TextPage page;
  page.line("replay of %s to %s, model %s", report.facts.date.c_str(), report.facts.target.c_str(),
            report.facts.model.c_str());
  trace_lines(page, report.facts);
  request_lines(page, report);
  latency_lines(page, report);
  slo_lines(page, report);
  worker_lines(page, report);
  return page.take();
}

}  // namespace lynx
