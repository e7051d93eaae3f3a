// Does a request's expert histogram at prefill predict its experts in decode, and how many experts does a
// batch of requests with like histograms save? From the exact model's routing alone.
#pragma once

#include "loadtest/quality/exact_run.h"
#include "loadtest/quality/results.h"

namespace lynx {

// One seed's documents.
void measure_affinity(const ExactRun& exact, const std::vector<std::uint32_t>& batches, std::uint64_t seed,
                      Affinity& affinity);

// Spearman's rank correlation; ties share their mean rank.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace lynx
