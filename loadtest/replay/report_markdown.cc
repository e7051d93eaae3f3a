#include "loadtest/replay/html_report.h"
#include "loadtest/replay/text_page.h"

namespace lynx {
namespace {

// A cell must not end its row.
std::string cell(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '|') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

void latency_rows(TextPage& page, const std::string& prefix, const Report& r) {
  const auto row = [&](const char* name, const Summary& s) {
    if (s.count == 0) return page.line("| %s%s | none | | | | |", prefix.c_str(), name);
    page.line("| %s%s | %.1f | %.1f | %.1f | %.1f | %.1f |", prefix.c_str(), name, s.mean, s.p50, s.p90,
              s.p99, s.max);
  };
  row("TTFT", r.ttft_ms);
  row("TPOT", r.tpot_ms);
  row("ITL", r.itl_ms);
  row("end to end", r.e2e_ms);
  row("sent late", r.lateness_ms);
}

void load_rows(TextPage& page, const std::string& prefix, const Report& r) {
  page.line("| %soffered | %zu | %.2f | %.1f |", prefix.c_str(), r.requests, r.offered.requests_per_s,
            r.offered.output_tokens_per_s);
  page.line("| %sachieved | %zu | %.2f | %.1f |", prefix.c_str(), r.completed,
            r.per_second(static_cast<double>(r.completed)),
            r.per_second(static_cast<double>(r.output_tokens)));
  page.line("| %sgoodput | %zu | %.2f | |", prefix.c_str(), r.met(),
            r.per_second(static_cast<double>(r.met())));
}

void class_rows(TextPage& page, const std::string& prefix, const Report& r) {
  for (const ClassReport& c : r.classes)
    if (c.requests > 0)
      page.line("| %s%s | %g ms | %g ms | %zu | %.1f %% |", prefix.c_str(), cell(c.slo.name).c_str(),
                static_cast<double>(c.slo.ttft.count()) / 1000,
                static_cast<double>(c.slo.tpot.count()) / 1000, c.requests, 100 * c.attainment());
}

void other_lines(TextPage& page, const std::string& prefix, const Report& r) {
  if (r.workers.layer_steps > 0)
    page.line(
        "- %sunique experts per layer-step: routed %.1f, activated %.1f; %.1f %% of assignments moved, "
        "router mass kept %.1f %%",
        prefix.c_str(), r.workers.routed_mean, r.workers.activated_mean, 100 * r.workers.remapped_share,
        100 * r.workers.retained_mass_mean);
  if (r.workers.kv_transfers > 0)
    page.line("- %sKV hand-over: %.0f, mean %.2f ms, of which %.2f ms after the last layer", prefix.c_str(),
              r.workers.kv_transfers, 1e3 * r.workers.kv_seconds_mean,
              1e3 * r.workers.kv_exposed_seconds_mean);
  for (const auto& [cause, n] : r.failures)
    page.line("- %sfailed: %zu x %s (%s)", prefix.c_str(), n, cell(cause).c_str(),
              cell(r.first_detail.at(cause)).c_str());
}

void comparison_rows(TextPage& page, const Comparison& c) {
  page.line("\n## %s (A) against %s (B)\n", cell(c.name_a).c_str(), cell(c.name_b).c_str());
  page.line(
      "%zu requests, the same on both sides; 95 %% intervals by a block bootstrap over the pairs. Above 1: B "
      "is faster.\n",
      c.pairs);
  page.line("| | A, ms | B, ms | A / B |\n|---|---|---|---|");
  for (const PairedLatency& l : c.latencies) {
    if (l.pairs == 0) continue;
    const auto row = [&](const char* what, double a, double b, const Interval& i) {
      page.line("| %s %s | %.1f | %.1f | %s |", l.name.c_str(), what, a, b, to_string(i).c_str());
    };
    row("mean", l.mean_a_ms, l.mean_b_ms, l.mean_speedup);
    row("p50", l.p50_a_ms, l.p50_b_ms, l.p50_speedup);
    row("p99", l.p99_a_ms, l.p99_b_ms, l.p99_speedup);
  }
  if (!c.experts.empty()) page.line("\n| Per layer and step | A | B | A / B |\n|---|---|---|---|");
  for (const PairedExperts& e : c.experts)
    page.line("| %s | %.2f | %.2f | %s |", e.name.c_str(), e.a, e.b, to_string(e.ratio).c_str());
  page.line(
      "\nSLO attainment: %.1f %% and %.1f %%, B gains %.1f points [%.1f, %.1f]. Sent late, p99: %.1f and "
      "%.1f ms.",
      100 * c.attainment_a, 100 * c.attainment_b, 100 * c.attainment_gain.value, 100 * c.attainment_gain.low,
      100 * c.attainment_gain.high, c.late_a_ms, c.late_b_ms);
}

}  // namespace

std::string markdown_report(const std::vector<RunView>& runs, const Comparison* comparison) {
  TextPage page;
  const RunFacts& f = runs[0].report.facts;
  page.line("# Replay of %s\n", cell(f.trace_name).c_str());
  page.line("%s, model %s, speedup %g, lengths %s by %.4g, seed %llu, warm-up %g s%s\n", f.date.c_str(),
            cell(f.model).c_str(), f.options.speedup, to_string(f.options.lengths).c_str(), f.length_factor,
            static_cast<unsigned long long>(f.options.seed), f.warm_up_s,
            f.interrupted ? ", interrupted" : "");
  const auto each = [&](const char* head, void (*rows)(TextPage&, const std::string&, const Report&)) {
    page.line("%s", head);
    for (const RunView& run : runs) rows(page, runs.size() > 1 ? cell(run.name) + ": " : "", run.report);
  };
  each("| Load | requests | requests/s | output tokens/s |\n|---|---|---|---|", load_rows);
  each("\n| Latency, ms | mean | p50 | p90 | p99 | max |\n|---|---|---|---|---|---|", latency_rows);
  each("\n| Class | TTFT | TPOT | requests | met |\n|---|---|---|---|---|", class_rows);
  each("", other_lines);
  if (comparison != nullptr) comparison_rows(page, *comparison);
  return page.take();
}

}  // namespace lynx
