// What the command line of lynx-lab says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lynx {

struct LabOptions {
  std::string model = "deploy/model", device = "cpu", text = "own", out = "build/lab";
  std::string data = "loadtest/quality/data";  // folder of topics.json and tasks.jsonl
  std::vector<std::string> policies{"lynx",
                                    "energy",
                                    "share",
                                    "oea",
                                    "xshare",
                                    "sweep",
                                    "top_k_reduced",
                                    "off",
                                    "lynx/kept",
                                    "energy/kept",
                                    "lynx/renormalised",
                                    "energy/renormalised"};
  std::vector<std::uint32_t> batches{2, 4, 8, 16, 32, 64};
  std::vector<std::string> parts{"curves", "sensitivity", "affinity", "tasks", "long"};
  std::uint32_t seeds = 3, documents = 64, prefix = 128, length = 256;
  std::uint32_t task_batch = 16, tasks = 0, long_requests = 16, long_tokens = 512;  // tasks: 0 = all
  unsigned threads = 0;
  bool quick = false, quiet = false;

  void add_to(CLI::App& app);
  // What --quick stands for where nothing else was asked for, and what does not fit together: throws
  // std::runtime_error naming the option.
  void settle(const CLI::App& app);
  bool has(const std::string& part) const;
};

}  // namespace lynx
