// Policies over batch sizes and mixes: the cells, and what each policy needs at the loss of lynx.
#pragma once

#include <string>
#include <vector>

#include "loadtest/quality/exact_run.h"
#include "loadtest/quality/policy_settings.h"
#include "loadtest/quality/progress.h"
#include "loadtest/quality/results.h"

namespace lynx {

struct CurvePlan {
  std::vector<PolicySetting> settings;
  std::vector<std::uint32_t> batches;
};

// One seed's documents. Mixed batches for every setting, alike batches for the defaults.
void measure_curves(ExactRun& exact, const CurvePlan& plan, std::uint64_t seed, Results& results,
                    Progress& progress);
std::size_t count_curves(const CurvePlan& plan, std::size_t documents);  // steps of progress

// The order in which documents form batches: shuffled, or topic by topic.
std::vector<std::size_t> mixed_order(const ExactRun& exact, std::uint64_t seed);
std::vector<std::size_t> alike_order(const ExactRun& exact);

}  // namespace lynx
