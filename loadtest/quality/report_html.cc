#include <set>

#include "loadtest/quality/lab_report.h"
#include "loadtest/quality/pareto_plot.h"
#include "loadtest/quality/report_tables.h"
#include "loadtest/replay/html_text.h"

namespace lynx {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#1b2330}"
    "table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}td,th{padding:3px "
    "10px;text-align:right;"
    "border-bottom:1px solid "
    "#dde3ea;white-space:nowrap}th{background:#f3f6f9}.plots{display:flex;flex-wrap:wrap;gap:12px}"
    "svg{background:#fff;border:1px solid #dde3ea;border-radius:6px}h2{margin-top:1.8em}p.note{color:#566}";

std::string row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& c : cells) out += "<" + std::string(tag) + ">" + escape_html(c) + "</" + tag + ">";
  return out + "</tr>\n";
}

}  // namespace

std::string to_html(const Results& results) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>lynx-lab</title><style>";
  out += kStyle;
  out += "</style></head><body>\n<h1>Routing policies: experts against quality</h1>\n<p>" +
         escape_html(headline_of(results)) + "</p>\n<div class=\"plots\">\n";
  std::set<std::uint32_t> batches;
  for (const Cell& c : results.cells) batches.insert(c.batch);
  for (const std::uint32_t batch : batches) out += pareto_plot(results, batch);
  out +=
      "</div>\n<p class=\"note\">Left and down is better. Filled: the default setting of a policy. Bars: one "
      "standard "
      "error.</p>\n";
  for (const ReportTable& t : tables_of(results)) {
    out += "<h2>" + escape_html(t.title) + "</h2>\n";
    if (!t.note.empty()) out += "<p class=\"note\">" + escape_html(t.note) + "</p>\n";
    out += "<table>\n" + row(t.head, "th");
    for (const auto& cells : t.rows) out += row(cells, "td");
    out += "</table>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace lynx
