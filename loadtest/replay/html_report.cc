#include "loadtest/replay/html_report.h"

#include "loadtest/replay/html_text.h"
#include "loadtest/replay/svg_chart.h"

namespace lynx {
namespace {

std::string tile(const std::string& name, const std::string& value, const std::string& more) {
  return "<div class=\"tile\"><small>" + escape_html(name) + "</small><b>" + escape_html(value) +
         "</b><small>" + escape_html(more) + "</small></div>\n";
}

std::string tiles(const Report& r) {
  std::string out = "<div class=\"tiles\">\n";
  out += tile("SLO attainment", number(100 * r.attainment(), 1) + " %",
              std::to_string(r.met()) + " of " + std::to_string(r.requests) + " requests");
  out += tile("Goodput", number(r.per_second(static_cast<double>(r.met())), 2) + " requests/s",
              "offered " + number(r.offered.requests_per_s, 2));
  out += tile("Output", number(r.per_second(static_cast<double>(r.output_tokens)), 0) + " tokens/s",
              "offered " + number(r.offered.output_tokens_per_s, 0));
  out += tile("TTFT p50", number(r.ttft_ms.p50, 0) + " ms", "p99 " + number(r.ttft_ms.p99, 0) + " ms");
  out += tile("TPOT p50", number(r.tpot_ms.p50, 1) + " ms", "p99 " + number(r.tpot_ms.p99, 1) + " ms");
  if (r.workers.layer_steps > 0)
    out +=
        tile("Unique experts", number(r.workers.routed_mean, 1) + " → " + number(r.workers.activated_mean, 1),
             "routed → activated, per layer-step");
  out += tile("Failed", std::to_string(r.requests - r.completed),
              "of " + std::to_string(r.requests) + " requests");
  out += tile("Sent late, p99", number(r.lateness_ms.p99, 2) + " ms",
              "at most " + number(r.lateness_ms.max, 2) + " ms: the generator itself");
  return out + "</div>\n";
}

}  // namespace

std::string html_report(const std::vector<RunView>& runs, const Comparison* comparison) {
  const RunFacts& facts = runs[0].report.facts;
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<title>Replay of " +
      escape_html(facts.trace_name) + "</title>\n<style>" + html_style() +
      "</style></head><body>\n<h1>Replay of " + escape_html(facts.trace_name) + "</h1>\n<p class=\"soft\">" +
      escape_html(facts.date) + ", model " + escape_html(facts.model) +
      (facts.interrupted ? ", interrupted" : "") + "</p>\n";
  for (const RunView& run : runs) {
    if (runs.size() > 1) out += "<h2>" + escape_html(run.name) + "</h2>\n";
    out += tiles(run.report);
  }
  if (comparison != nullptr) out += html_comparison(*comparison);
  return out + html_charts(runs) + html_tables(runs) + "</body></html>\n";
}

}  // namespace lynx
