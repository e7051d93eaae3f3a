// The commands of lynx-replay: what main hands over to. They print, write files, and return the exit status.
#pragma once

#include "loadtest/replay/replay_config.h"
#include "loadtest/replay/run_view.h"

namespace lynx {

enum ExitCode { kSomeSucceeded = 0, kNoneSucceeded = 1, kWrongUse = 2, kInterrupted = 130 };

// Throw ConfigError for a wrong setting and std::runtime_error for what cannot be written.
int replay_command(const ReplayConfig& config);

struct CompareConfig {
  std::string a{}, b{};  // results written with --save-requests
  std::vector<std::string> names{"A", "B"};
  std::string html{}, markdown{};
  std::uint64_t seed = 0;
  std::uint64_t resamples = 1000;

  ConfigFields fields();
};
int compare_command(const CompareConfig& config);

// And says so on stderr.
void write_report(const std::string& path, const std::string& text);

}  // namespace lynx
