// lynx-bench {step,prefill,...} [--json FILE]: how near each part comes to what this machine can do.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "common/core/log.h"
#include "loadtest/bench/subcommands.h"

int main(int argc, char** argv) {
  CLI::App app("Measures parts of Lynx against the ceilings of this machine");
  std::string json;
  app.add_option("--json", json, "write the rows to this file as well");
  app.require_subcommand(1);
  app.fallthrough();
  const lynx::Subcommand commands[] = {
      lynx::add_step(app),   lynx::add_engine(app), lynx::add_prefill(app), lynx::add_kv(app),
      lynx::add_pace(app),   lynx::add_router(app), lynx::add_start(app),
#ifdef LYNX_CUDA
      lynx::add_kernel(app), lynx::add_dense(app),
#endif
  };
  CLI11_PARSE(app, argc, argv);
  try {
    lynx::init_logging("bench", "warn");
    for (const lynx::Subcommand& command : commands) {
      if (!command.parser->parsed()) continue;
      const std::vector<lynx::BenchRow> rows = command.run();
      std::fputs(lynx::to_text(rows).c_str(), stdout);
      if (!json.empty()) lynx::write_json(json, rows);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lynx-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
