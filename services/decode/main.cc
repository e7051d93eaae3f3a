#include <exception>
#include <iostream>

#include "common/core/log.h"
#include "services/decode/decode_config.h"

int main(int argc, char** argv) {
  try {
    lynx::DecodeConfig config;
    lynx::ConfigFields fields;
    config.describe(fields);
    const auto outcome = lynx::configure(argc, argv, "lynx-decode",
                                         "Lynx worker: generates tokens, LYNX remapping on", fields);
    if (outcome == lynx::ConfigOutcome::kExit) return 0;
    config.validate();
    lynx::init_logging("decode", config.worker.log_level);
    return lynx::run_decode(config);
  } catch (const std::exception& e) {
    std::cerr << "lynx-decode: " << e.what() << '\n';
    return 1;
  }
}
