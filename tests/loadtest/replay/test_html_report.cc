#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "loadtest/replay/html_report.h"
#include "loadtest/replay/svg_chart.h"
#include "tests/loadtest/replay/sample_run.h"

namespace lynx {
namespace {

using testing::sample_run;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Every element is closed by its own end; empty when so. Enough of a parser for pages of our own making.
std::string unbalanced(const std::string& html) {
  static const std::set<std::string> kVoid{"meta", "br", "!doctype"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    const bool closes = html[at + 1] == '/', alone = html[end - 1] == '/';
    const std::size_t from = at + (closes ? 2 : 1);
    const std::string name = html.substr(from, html.find_first_of(" >/", from) - from);
    if (closes) {
      if (open.empty() || open.back() != name)
        return "</" + name + "> closes " + (open.empty() ? "" : open.back());
      open.pop_back();
    } else if (!alone && !kVoid.contains(name)) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back() + " is left open";
}

TEST(HtmlReport, IsOneFileThatLoadsAndRunsNothing) {
  const std::string html = html_report({sample_run("A", 100, 1, 1)}, nullptr);
  EXPECT_EQ(unbalanced(html), "");
  for (const char* part : {"<script", "http://", "https://", "<link", "<img", "@import", "url("})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(html.find("@media print"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos) << "a gap in a curve must stay a gap";
}

TEST(HtmlReport, ShowsEveryPlotAndTable) {
  RunView run = sample_run("A", 100, 1, 1);
  run.outcomes[5] = testing::refused(250, "http_429", "full");
  run.fleet = {.at_s = {1, 2, 3},
               .routed = {40, 41, 42},
               .activated = {20, 21, 22},
               .layer_steps = {70, 70, 70},
               .batch = {8, 9, 7},
               .kv_bytes_per_s = {1e6, 2e6, 0},
               .kv_ms = {3, 4, 5}};
  run.workers = {{.name = "127.0.0.1:8012",
                  .decodes = true,
                  .at_s = {1, 2, 3},
                  .busy = {0.5, 1, 0},
                  .batch = {8, 9, 7},
                  .blocks_used = {0.1, 0.2, 0.3}}};
  WorkerReport workers;
  workers.layer_steps = 10;
  workers.routed_mean = 41;
  workers.activated_mean = 21;
  run.report = make_report(run.report.facts, run.outcomes, workers);
  const std::string html = html_report({run}, nullptr);
  for (const char* part :
       {"Arrivals and completions", "Requests in flight", "SLO attainment", "TTFT over time",
        "TPOT over time", "ITL over the window", "TTFT, distribution", "End to end, distribution",
        "Unique experts", "Decode batch per worker", "KV moved", "KV hand-over", "offered", "achieved",
        "goodput", "http_429", "41.0 → 21.0", "sent late", "127.0.0.1:8012"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(count(html, "<svg"), count(html, "<figure")) << "no plot is without data";
  EXPECT_EQ(count(html, "<figure"), 18u);
}

TEST(HtmlReport, TwoRunsShareTheirPlots) {
  RunView a = sample_run("lynx", 60, 1, 1), b = sample_run("off", 60, 1.2, 2);
  a.fleet = testing::sample_fleet(20, 38, 1);
  b.fleet = testing::sample_fleet(20, 40, 2);
  const auto comparison = compare(a, b);
  ASSERT_TRUE(comparison.ok());
  for (const std::string& page : {html_report({a, b}, &*comparison), markdown_report({a, b}, &*comparison),
                                  comparison_text(*comparison)})
    EXPECT_NE(page.find("unique experts routed, at equal batch"), std::string::npos) << page;
  const std::string html = html_report({a, b}, &*comparison);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_NE(html.find("lynx: p99"), std::string::npos);
  EXPECT_NE(html.find("off: p99"), std::string::npos);
  EXPECT_NE(html.find("95 % interval"), std::string::npos);
  EXPECT_GT(count(html, "class=\"s1 dashed\""), 3u) << "the second run is told apart without colour, too";
}

TEST(HtmlReport, WhatComesFromOutsideIsText) {
  RunView run = sample_run("A", 20, 1, 1);
  run.outcomes[5] = testing::refused(250, "http_500", "<script>alert(\"x\")</script> & more");
  RunFacts facts = run.report.facts;
  facts.trace_name = "<b>.csv";
  run.report = make_report(facts, run.outcomes, {});
  const std::string html = html_report({run}, nullptr);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(html.find("<b>.csv"), std::string::npos);
  EXPECT_EQ(unbalanced(html), "");
}

TEST(HtmlReport, ARunWithoutAnAnswerIsAReportToo) {
  RunView run = sample_run("A", 0, 1, 1);
  EXPECT_EQ(unbalanced(html_report({run}, nullptr)), "");
  run.outcomes = {testing::refused(0, "timeout", "late")};
  run.report = make_report(run.report.facts, run.outcomes, {});
  run.timeline = make_timeline(run.outcomes, testing::one_class(), 1);
  EXPECT_NE(html_report({run}, nullptr).find("no data"), std::string::npos);
  EXPECT_FALSE(markdown_report({run}, nullptr).empty());
}

TEST(MarkdownReport, HasTheFiguresInTables) {
  RunView a = sample_run("A", 60, 1, 1);
  a.outcomes[5] = testing::refused(250, "http_429", "full | really");
  a.report = make_report(a.report.facts, a.outcomes, {});
  const RunView b = sample_run("B", 60, 1.2, 2);
  const auto comparison = compare(a.outcomes, b.outcomes, testing::one_class());
  const std::string text = markdown_report({a, b}, &*comparison);
  for (const char* part :
       {"# Replay of made-up.csv", "| A: offered | 60 |", "| B: TTFT |",
        "| A: interactive | 500 ms | 50 ms | 60 |", "1 x http_429 (full \\| really)", "| TPOT p99 |"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(SvgChart, TicksAreRoundAndCoverTheData) {
  EXPECT_EQ(axis_ticks(0, 10, 4), (std::vector<double>{0, 2.5, 5, 7.5, 10}));
  EXPECT_EQ(axis_ticks(0, 97, 4).back(), 100);
  EXPECT_LE(axis_ticks(0, 0.003, 4).size(), 6u);
  EXPECT_EQ(axis_ticks(5, 5, 4).front(), 5) << "no span at all";
}

TEST(SvgChart, AGapBreaksTheLineAndStaysOut) {
  Chart chart{.title = "t", .x_label = "s", .y_label = "ms"};
  chart.curves = {{.name = "a", .x = {0, 1, 2, 3}, .y = {1, 2, std::nan(""), 4}}};
  const std::string svg = svg_figure(chart);
  EXPECT_EQ(count(svg.substr(svg.find("<path")), "M"), 2u);
  chart.curves[0].y.assign(4, std::nan(""));
  EXPECT_NE(svg_figure(chart).find("no data"), std::string::npos);
}

TEST(SvgChart, NumbersAreShort) {
  EXPECT_EQ(compact(0), "0");
  EXPECT_EQ(compact(0.25), "0.25");
  EXPECT_EQ(compact(1500), "1500");
  EXPECT_EQ(compact(25000), "25k");
  EXPECT_EQ(compact(2.5e6), "2.5M");
}

}  // namespace
}  // namespace lynx
