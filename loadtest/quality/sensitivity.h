// What the paper claims about where remapping hurts, measured: ranks, phases, confident tokens; and what rows
// that ask for exactness cost the others.
#pragma once

#include "loadtest/quality/exact_run.h"
#include "loadtest/quality/policy_settings.h"
#include "loadtest/quality/progress.h"
#include "loadtest/quality/results.h"

namespace lynx {

struct SensitivityPlan {
  std::vector<PolicySetting> policies;  // the defaults of those under test
  std::uint32_t batch = 16;
};

// One seed's documents.
void measure_sensitivity(ExactRun& exact, const SensitivityPlan& plan, std::uint64_t seed, Results& results,
                         Progress& progress);
std::size_t count_sensitivity(const SensitivityPlan& plan, const RouterShape& shape);  // steps of progress

}  // namespace lynx
