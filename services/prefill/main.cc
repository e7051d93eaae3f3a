#include <exception>
#include <iostream>

#include "common/core/log.h"
#include "services/prefill/prefill_config.h"

int main(int argc, char** argv) {
  try {
    lynx::PrefillConfig config;
    lynx::ConfigFields fields;
    config.describe(fields);
    const auto outcome = lynx::configure(argc, argv, "lynx-prefill",
                                         "Lynx worker: computes prompts and hands their KV over", fields);
    if (outcome == lynx::ConfigOutcome::kExit) return 0;
    config.validate();
    lynx::init_logging("prefill", config.worker.log_level);
    return lynx::run_prefill(config);
  } catch (const std::exception& e) {
    std::cerr << "lynx-prefill: " << e.what() << '\n';
    return 1;
  }
}
