#include "loadtest/bench/bench_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/core/write_file.h"

namespace lynx {

std::string to_text(const std::vector<BenchRow>& rows) {
  std::string out;
  char line[256];
  std::snprintf(line, sizeof(line), "%-24s %12s %12s %8s  %-9s %s\n", "row", "value", "ceiling", "ratio",
                "target", "unit; ceiling");
  out += line;
  for (const BenchRow& row : rows) {
    std::snprintf(line, sizeof(line), "%-24s %12.4g %12.4g %8.2f  %-9s %s; %s\n", row.name.c_str(), row.value,
                  row.ceiling, row.ratio(), row.target.c_str(), row.unit.c_str(), row.ceiling_is.c_str());
    out += line;
    for (const auto& [name, value] : row.details) {
      std::snprintf(line, sizeof(line), "    %-28s %.6g\n", name.c_str(), value);
      out += line;
    }
  }
  return out;
}

void write_json(const std::string& path, const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"unit", row.unit},
                    {"value", row.value},
                    {"ceiling", row.ceiling},
                    {"ceiling_is", row.ceiling_is},
                    {"ratio", row.ratio()},
                    {"target", row.target},
                    {"details", row.details}});
  }
  write_file(path, json.dump(2) + '\n');
}

}  // namespace lynx
