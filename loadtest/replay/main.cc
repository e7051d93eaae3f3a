// lynx-replay: replays a request trace against an OpenAI-compatible server and reports what its clients saw.
//   lynx-replay [settings]            the replay, against one server or two
//   lynx-replay compare [settings]    two results of one workload, request by request
#include <cstdio>
#include <string_view>

#include "common/core/log.h"
#include "loadtest/replay/commands.h"

namespace {

using namespace lynx;

int replay(int argc, char** argv) {
  ReplayConfig config;
  ConfigFields fields = config.fields();
  const ConfigOutcome outcome = configure(argc, argv, "lynx-replay",
                                          "Replays a request trace against an OpenAI-compatible server. "
                                          "`lynx-replay compare` compares two results.",
                                          fields);
  return outcome == ConfigOutcome::kExit ? 0 : replay_command(config);
}

int compare_results(int argc, char** argv) {
  CompareConfig config;
  ConfigFields fields = config.fields();
  const ConfigOutcome outcome =
      configure(argc, argv, "lynx-replay compare",
                "Compares two results of the same workload, request by request.", fields);
  return outcome == ConfigOutcome::kExit ? 0 : compare_command(config);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    lynx::init_logging("lynx-replay", "warn");
    if (argc > 1 && std::string_view(argv[1]) == "compare") return compare_results(argc - 1, argv + 1);
    return replay(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lynx-replay: %s\n", e.what());
    return kWrongUse;
  }
}
