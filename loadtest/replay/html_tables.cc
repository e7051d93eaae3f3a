#include "loadtest/replay/html_report.h"
#include "loadtest/replay/html_text.h"
#include "loadtest/replay/svg_chart.h"

namespace lynx {
namespace {

std::string percent(double share) { return number(100 * share) + " %"; }
std::string count(std::size_t n) { return std::to_string(n); }

class Table {
 public:
  explicit Table(std::vector<std::string> head) {
    out_ = "<div class=\"scroll\"><table><thead><tr>";
    for (const std::string& name : head) out_ += "<th>" + escape_html(name) + "</th>";
    out_ += "</tr></thead><tbody>\n";
  }
  void row(const std::vector<std::string>& cells, const char* last = "") {
    out_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      out_ +=
          std::string("<td") + (i + 1 == cells.size() ? last : "") + ">" + escape_html(cells[i]) + "</td>";
    out_ += "</tr>\n";
  }
  std::string take() { return out_ + "</tbody></table></div>\n"; }

 private:
  std::string out_;
};

std::string run_prefix(const std::vector<RunView>& runs, const RunView& run) {
  return runs.size() > 1 ? run.name + ": " : "";
}

std::string load_table(const std::vector<RunView>& runs) {
  Table table({"Load", "requests", "requests/s", "input tokens/s", "output tokens/s", "over, s"});
  for (const RunView& run : runs) {
    const Report& r = run.report;
    const std::string prefix = run_prefix(runs, run);
    table.row({prefix + "offered", count(r.requests), number(r.offered.requests_per_s, 2),
               number(r.offered.input_tokens_per_s), number(r.offered.output_tokens_per_s),
               number(r.offered.seconds)});
    table.row({prefix + "achieved", count(r.completed),
               number(r.per_second(static_cast<double>(r.completed)), 2),
               number(r.per_second(static_cast<double>(r.input_tokens))),
               number(r.per_second(static_cast<double>(r.output_tokens))), number(r.judged_s())});
    table.row({prefix + "inside every objective (goodput)", count(r.met()),
               number(r.per_second(static_cast<double>(r.met())), 2), "", "", ""});
  }
  return table.take();
}

std::string latency_table(const std::vector<RunView>& runs) {
  Table table({"Latency, ms", "samples", "mean", "p50", "p90", "p99", "max"});
  for (const RunView& run : runs) {
    const auto add = [&](const char* name, const Summary& s) {
      if (s.count == 0) return table.row({run_prefix(runs, run) + name, "none", "", "", "", "", ""});
      table.row({run_prefix(runs, run) + name, count(s.count), number(s.mean), number(s.p50), number(s.p90),
                 number(s.p99), number(s.max)});
    };
    add("TTFT", run.report.ttft_ms);
    add("TPOT", run.report.tpot_ms);
    add("ITL", run.report.itl_ms);
    add("end to end", run.report.e2e_ms);
    add("sent late", run.report.lateness_ms);
  }
  return table.take();
}

std::string objective(std::chrono::microseconds time) {
  return time.count() == 0 ? "none" : number(static_cast<double>(time.count()) / 1000, 0) + " ms";
}

std::string class_table(const std::vector<RunView>& runs) {
  Table table({"Class", "TTFT objective", "TPOT objective", "requests", "TTFT met", "TPOT met", "both met",
               "goodput/s"});
  for (const RunView& run : runs)
    for (const ClassReport& c : run.report.classes) {
      if (c.requests == 0) continue;
      const auto share = [&](std::size_t met) {
        return percent(static_cast<double>(met) / static_cast<double>(c.requests));
      };
      table.row({run_prefix(runs, run) + c.slo.name, objective(c.slo.ttft), objective(c.slo.tpot),
                 count(c.requests), share(c.met_ttft), share(c.met_tpot), share(c.met),
                 number(run.report.per_second(static_cast<double>(c.met)), 2)});
    }
  return table.take();
}

std::string error_table(const std::vector<RunView>& runs) {
  Table table({"Errors by cause", "requests", "for example"});
  bool any = false;
  for (const RunView& run : runs)
    for (const auto& [cause, n] : run.report.failures) {
      any = true;
      table.row({run_prefix(runs, run) + cause, count(n), run.report.first_detail.at(cause)},
                " class=\"left wrap\"");
    }
  return any ? table.take() : "<p>No request failed.</p>\n";
}

std::string worker_table(const std::vector<RunView>& runs) {
  Table table({"Workers", "unique experts routed", "activated", "assignments moved", "router mass kept",
               "KV moved, MB", "hand-over, ms", "after the last layer, ms", "failed pushes"});
  bool any = false;
  for (const RunView& run : runs) {
    const WorkerReport& w = run.report.workers;
    double bytes = 0;
    std::string over;
    for (const auto& [transport, amount] : w.kv_bytes) {
      bytes += amount;
      over += " over " + transport;
    }
    if (w.layer_steps == 0 && bytes == 0) continue;
    any = true;
    table.row({run_prefix(runs, run) + "all" + over, number(w.routed_mean), number(w.activated_mean),
               percent(w.remapped_share), percent(w.retained_mass_mean), number(bytes / 1e6),
               number(1e3 * w.kv_seconds_mean, 2), number(1e3 * w.kv_exposed_seconds_mean, 2),
               number(w.kv_failures, 0)});
  }
  return any ? table.take() : "";
}

std::string setting_table(const std::vector<RunView>& runs) {
  Table table({"Setting", ""});
  const auto add = [&](const std::string& name, const std::string& value) {
    table.row({name, value}, " class=\"left wrap\"");
  };
  const RunFacts& f = runs[0].report.facts;
  add("trace", f.trace_name + " (" + f.trace_format + ")");
  if (!f.trace_sha256.empty()) add("sha256", f.trace_sha256);
  if (f.options.slice)
    add("slice", "from " + number(std::chrono::duration<double>(f.options.slice->start).count()) + " s, " +
                     number(std::chrono::duration<double>(f.options.slice->duration).count()) + " s long");
  add("speedup",
      number(f.options.speedup, 2) + (f.options.spread_within_tick ? ", spread within ticks" : ""));
  add("lengths", to_string(f.options.lengths) + ", by " + number(f.length_factor, 4) + ", context " +
                     std::to_string(f.options.context));
  add("seed", std::to_string(f.options.seed));
  add("warm-up", number(f.warm_up_s) + " s");
  for (const auto& [reason, n] : f.rejected.by_reason) add("rejected rows", count(n) + " x " + reason);
  for (const RunView& run : runs) {
    add(run_prefix(runs, run) + "server", run.report.facts.target + ", model " + run.report.facts.model);
    for (const std::string& problem : run.report.facts.metrics_problems)
      add(run_prefix(runs, run) + "not scraped", problem);
  }
  return table.take();
}

}  // namespace

std::string html_tables(const std::vector<RunView>& runs) {
  return "<h2>Figures</h2>\n" + load_table(runs) + "<br>" + latency_table(runs) + "<br>" + class_table(runs) +
         "<br>" + worker_table(runs) + "<h2>Errors</h2>\n" + error_table(runs) + "<h2>What was run</h2>\n" +
         setting_table(runs);
}

std::string html_comparison(const Comparison& c) {
  std::string out =
      "<h2>" + escape_html(c.name_a) + " (A) against " + escape_html(c.name_b) + " (B)</h2>\n<p>" +
      count(c.pairs) +
      " requests, the same on both sides: same arrivals, lengths, texts and classes. A / B above 1: B is "
      "faster. In brackets the 95 % interval, by a block bootstrap over the pairs.</p>\n";
  Table table(
      {"", "pairs", "mean A", "mean B", "A / B", "p50 A", "p50 B", "A / B", "p99 A", "p99 B", "A / B"});
  for (const PairedLatency& l : c.latencies)
    if (l.pairs > 0)
      table.row({l.name + ", ms", count(l.pairs), number(l.mean_a_ms), number(l.mean_b_ms),
                 to_string(l.mean_speedup), number(l.p50_a_ms), number(l.p50_b_ms), to_string(l.p50_speedup),
                 number(l.p99_a_ms), number(l.p99_b_ms), to_string(l.p99_speedup)});
  out += table.take();
  Table experts({"Per layer and decode step", "A", "B", "A / B"});
  for (const PairedExperts& e : c.experts)
    experts.row({e.name, number(e.a, 2), number(e.b, 2), to_string(e.ratio)});
  if (!c.experts.empty()) out += "<br>" + experts.take();
  return out + "<p>SLO attainment " + percent(c.attainment_a) + " and " + percent(c.attainment_b) +
         ": B gains " + number(100 * c.attainment_gain.value) + " points [" +
         number(100 * c.attainment_gain.low) + ", " + number(100 * c.attainment_gain.high) +
         "]. Sent late, p99: " + number(c.late_a_ms) + " and " + number(c.late_b_ms) + " ms.</p>\n";
}

}  // namespace lynx
