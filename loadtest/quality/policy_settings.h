// The settings of a policy that the laboratory goes through: the default of the design first, then those that
// trace its curve of experts against quality.
#pragma once

#include <string>
#include <vector>

#include "kernels/lynx/policy.h"

namespace lynx {

struct PolicySetting {
  RoutePolicy policy;
  std::string name;   // of the curve: "lynx", or "lynx/kept" with another rule of weights than the default
  std::string label;  // "lynx W=0.83"
  bool is_default = false;
};

// policy: a kind, or KIND/WEIGHTS. Throws std::runtime_error naming the policy. With one setting only: the
// default.
std::vector<PolicySetting> settings_of(const std::string& policy, const RouterShape& shape,
                                       bool default_only);

}  // namespace lynx
