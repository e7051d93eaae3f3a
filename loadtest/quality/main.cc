// lynx-lab: what routing policies save and what they cost, on a model folder. See README.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "common/core/log.h"
#include "common/core/write_file.h"
#include "loadtest/quality/lab_report.h"
#include "loadtest/quality/laboratory.h"

int main(int argc, char** argv) {
  lynx::LabOptions options;
  CLI::App app{"Measures routing policies on a model: experts read against quality."};
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);
  try {
    options.settle(app);
    const std::filesystem::path folder = options.out;
    std::filesystem::create_directories(folder);
    const lynx::Results results = lynx::run_laboratory(options);
    lynx::write_file(folder / "lab.json", lynx::to_json(results));
    lynx::write_file(folder / "lab.md", lynx::to_markdown(results));
    lynx::write_file(folder / "lab.html", lynx::to_html(results));
    std::fputs(lynx::to_markdown(results).c_str(), stdout);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lynx-lab: %s\n", e.what());
    return 1;
  }
  return 0;
}
