#include "loadtest/quality/lab_report.h"
#include "loadtest/quality/report_tables.h"

namespace lynx {
namespace {

std::string line(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

}  // namespace

std::string to_markdown(const Results& results) {
  std::string out = "# lynx-lab\n\n" + headline_of(results) + "\n";
  for (const ReportTable& t : tables_of(results)) {
    out += "\n## " + t.title + "\n\n";
    if (!t.note.empty()) out += t.note + "\n\n";
    out += line(t.head) + line(std::vector<std::string>(t.head.size(), "---"));
    for (const auto& row : t.rows) out += line(row);
  }
  return out;
}

}  // namespace lynx
