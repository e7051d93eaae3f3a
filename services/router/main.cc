#include <exception>
#include <iostream>

#include "common/core/log.h"
#include "services/router/router_service.h"

int main(int argc, char** argv) {
  try {
    lynx::RouterConfig config;
    lynx::ConfigFields fields;
    config.describe(fields);
    const auto outcome =
        lynx::configure(argc, argv, "lynx-router", "the OpenAI API before Lynx's workers", fields);
    if (outcome == lynx::ConfigOutcome::kExit) return 0;
    config.validate();
    lynx::init_logging("router", config.log_level);
    lynx::run_router(config);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "lynx-router: " << e.what() << '\n';
    return 1;
  }
}
