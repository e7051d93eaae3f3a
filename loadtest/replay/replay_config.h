// The settings of lynx-replay: one list gives flags, YAML keys and help.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/config/yaml_reader.h"
#include "loadtest/replay/client_pool.h"
#include "loadtest/replay/endpoint.h"
#include "loadtest/replay/load_driver.h"
#include "loadtest/replay/slo.h"
#include "loadtest/replay/synthesizer.h"
#include "loadtest/replay/workload.h"

namespace lynx {

struct ReplayConfig {
  std::string target = "127.0.0.1:8000";
  std::string against{};  // a second server: A/B
  std::string order = "one-after-other";
  std::vector<std::string> names{"A", "B"};
  std::string model{};
  std::string tokenizer = "deploy/model/tokenizer.json";
  std::string text{}, topics{};
  std::uint32_t topic_tokens = 32;
  std::string trace{};
  std::string format = "auto";
  double speedup = 1;
  std::string slice{};
  bool spread_within_tick = false;
  std::string lengths = "scale";
  std::uint32_t context = 2048;
  std::uint32_t max_output_tokens = 0;
  std::uint64_t max_requests = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> slo{"interactive:ttft=500ms,tpot=50ms", "standard:ttft=2s,tpot=100ms",
                               "batch:ttft=30s,tpot=500ms"};
  std::map<std::string, double> mix{{"interactive", 0.6}, {"standard", 0.3}, {"batch", 0.1}};
  std::vector<std::string> metrics{}, against_metrics{};
  std::chrono::milliseconds warm_up{0};
  std::chrono::milliseconds sample{1'000};
  double temperature = 1;
  bool ignore_eos = true;
  bool receipts = false;
  std::chrono::milliseconds timeout{120'000};
  std::chrono::milliseconds ready_timeout{30'000};
  std::chrono::milliseconds progress{2'000};
  std::string live = "auto";
  std::string result{}, html{}, markdown{};
  bool save_requests = false;
  bool check = false;
  std::string gaps = "gamma";
  SyntheticOptions synthetic;
  PoolOptions pool;

  ConfigFields fields();

  // What the texts above mean. Throw ConfigError naming the field.
  struct Side {  // one server of a run
    std::string name{};
    Endpoint target{};
    std::vector<Endpoint> metrics{};
  };
  std::vector<Side> sides() const;  // one, or two when `against` is set
  bool together() const;            // both sides at once
  bool draw_live() const;           // over and over on the terminal that stderr is
  std::vector<SloTarget> slo_targets() const;
  std::string result_path(const Side& side) const;  // of two sides each result has its name in it
  void check_files() const;                         // what the run is to leave can be written
  WorkloadOptions workload_options() const;
  Trace load_trace() const;  // reads the file, draws from the pool, or synthesizes

 private:
  Trace draw_from_pool() const;
};

}  // namespace lynx
