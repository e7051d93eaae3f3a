#include "loadtest/replay/comparison.h"
#include "loadtest/replay/text_page.h"

namespace lynx {

std::string comparison_text(const Comparison& c) {
  TextPage page;
  page.line("\n%s (A) against %s (B): %zu requests, the same on both sides", c.name_a.c_str(),
            c.name_b.c_str(), c.pairs);
  page.line("                 A, ms      B, ms    A / B, with its 95 %% interval (above 1: B is faster)");
  for (const PairedLatency& l : c.latencies) {
    if (l.pairs == 0) continue;
    const auto row = [&](const char* what, double a, double b, const Interval& speedup) {
      page.line("  %-10s %-4s %9.1f  %9.1f    %s", l.name.c_str(), what, a, b, to_string(speedup).c_str());
    };
    row("mean", l.mean_a_ms, l.mean_b_ms, l.mean_speedup);
    row("p50", l.p50_a_ms, l.p50_b_ms, l.p50_speedup);
    row("p99", l.p99_a_ms, l.p99_b_ms, l.p99_speedup);
  }
  if (c.experts.empty())
    page.line("  experts: not compared; takes --metrics of both sides and ten samples after the warm-up");
  else
    page.line("  per layer and step                           A          B    A / B (above 1: B has fewer)");
  for (const PairedExperts& e : c.experts)
    page.line("  %-40s %5.2f  %9.2f    %s", e.name.c_str(), e.a, e.b, to_string(e.ratio).c_str());
  page.line("  attainment      %8.1f%%  %8.1f%%    %+.1f points  [%+.1f, %+.1f]", 100 * c.attainment_a,
            100 * c.attainment_b, 100 * c.attainment_gain.value, 100 * c.attainment_gain.low,
            100 * c.attainment_gain.high);
  page.line("  completed       %9zu  %9zu", c.completed_a, c.completed_b);
  page.line("  sent late  p99  %9.1f  %9.1f    the generator itself", c.late_a_ms, c.late_b_ms);
  return page.take();
}

}  // namespace lynx
