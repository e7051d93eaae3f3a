#include <cstdio>
#include <iostream>

#include "common/core/write_file.h"
#include "loadtest/replay/commands.h"
#include "loadtest/replay/html_report.h"

namespace lynx {

ConfigFields CompareConfig::fields() {
  ConfigFields f;
  f.field("a", &a, "result of the first run, written with --save-requests");
  f.field("b", &b, "result of the second run of the same workload");
  f.field("names", &names, "what the two are called");
  f.field("html", &html, "write a report to this file: one HTML page with plots");
  f.field("markdown", &markdown, "write a summary to this file");
  f.field("seed", &seed, "of the bootstrap");
  f.field("resamples", &resamples, "of the bootstrap");
  return f;
}

void write_report(const std::string& path, const std::string& text) {
  write_file(path, text);
  std::fprintf(stderr, "written: %s\n", path.c_str());
}

int compare_command(const CompareConfig& config) {
  if (config.names.size() != 2) throw ConfigError("--names: expected two names");
  if (config.resamples < 20 || config.resamples > 1'000'000)
    throw ConfigError("--resamples: expected 20 to 1000000");
  std::vector<RunView> runs;
  for (const auto& [flag, path] : {std::pair{"--a: ", config.a}, std::pair{"--b: ", config.b}}) {
    auto run = read_result(path);
    if (!run) throw ConfigError(flag + run.error().message);
    run->name = config.names[runs.size()];
    runs.push_back(std::move(*run));
  }
  const auto comparison = compare(runs[0], runs[1], {.seed = config.seed, .resamples = config.resamples});
  if (!comparison) throw ConfigError(comparison.error().message);
  std::cout << comparison_text(*comparison) << std::flush;
  if (!config.html.empty()) write_report(config.html, html_report(runs, &*comparison));
  if (!config.markdown.empty()) write_report(config.markdown, markdown_report(runs, &*comparison));
  return kSomeSucceeded;
}

}  // namespace lynx
