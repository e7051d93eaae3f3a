// What placement by experts saves in a small fleet: requests arrive, are placed by the router's own worker
// table and policies, decode and leave; counted are the experts that each worker's batch needs. From the
// exact model's routing alone, so the figure depends on no machine.
#pragma once

#include "loadtest/quality/exact_run.h"
#include "loadtest/quality/results.h"

namespace lynx {

// One seed's documents on kFleet decode workers, three quarters full, batch by batch size. A topic stands for
// one system prompt: what the router knows before prefill is what it has learnt from earlier requests of it.
constexpr std::uint32_t kFleet = 4;
void measure_placement(const ExactRun& exact, const std::vector<std::uint32_t>& batches, std::uint64_t seed,
                       std::vector<PlacementGain>& gains);

}  // namespace lynx
