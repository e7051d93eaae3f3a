// Service classes as the load generator judges them: what counts as good, and which share of the requests
// each class has.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/core/result.h"

namespace lynx {

struct SloTarget {
  std::string name;                   // sent as `slo_class`
  double share = 0;                   // of the requests; all shares sum to 1
  std::chrono::microseconds ttft{0};  // 0 = no objective
  std::chrono::microseconds tpot{0};
};

// slos: "interactive:ttft=500ms,tpot=50ms" or the same split at its commas. mix: weights by class name; empty
// = equal. Every class of the mix needs an SLO, and the other way round; errors begin with slo or mix, and
// name the part that is wrong.
Result<std::vector<SloTarget>> parse_slos(const std::vector<std::string>& slos,
                                          const std::map<std::string, double>& mix);

// "500ms", "1.5s", "250us" or plain milliseconds.
Result<std::chrono::microseconds> parse_duration(const std::string& text);

}  // namespace lynx
