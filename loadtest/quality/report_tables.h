// The tables of a report, before they are Markdown or HTML.
#pragma once

#include <string>
#include <vector>

#include "loadtest/quality/results.h"

namespace lynx {

struct ReportTable {
  std::string title, note;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

std::vector<ReportTable> tables_of(const Results& results);
std::string headline_of(const Results& results);  // one paragraph: what was measured on

}  // namespace lynx
