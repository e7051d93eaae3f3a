// What every subcommand of lynx-bench returns: rows of a value, the ceiling that it is held against, and
// their ratio, all measured in the same run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lynx {

struct BenchRow {
  std::string name;  // "step.b16"
  std::string unit;  // of value and ceiling
  double value = 0;
  double ceiling = 0;
  std::string ceiling_is;  // what the ceiling is, in words
  std::string target;      // of the ratio: "<= 2.0"
  std::map<std::string, double> details;

  double ratio() const { return ceiling > 0 ? value / ceiling : 0; }
};

std::string to_text(const std::vector<BenchRow>& rows);                       // a table
void write_json(const std::string& path, const std::vector<BenchRow>& rows);  // throws std::runtime_error

}  // namespace lynx
