// Batched decode of given text: the documents of a group advance one token a step, together, as requests in a
// decode batch do, and each step's predictions are compared with the exact model's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/lynx/policy.h"
#include "loadtest/quality/exact_run.h"

namespace lynx {

struct DocumentOutcome {   // means over the document's measured tokens
  double loss_change = 0;  // nats per token against the exact model, on the document's own next token
  double kl = 0;           // of the exact distribution from this one
  double agreement = 0;    // equal first tokens
  double mass = 0,
         worst_mass = 1;  // router mass kept: mean over tokens and layers; worst token (mean of layers)
  double remapped = 0;    // share of the assignments
};

struct TokenOutcome {
  double loss_change = 0;
  float confidence = 0;
};

struct RunOutcome {
  std::vector<DocumentOutcome> documents;  // in the order of the run's documents
  std::vector<TokenOutcome> tokens;
  std::vector<double> routed, activated;  // [layers] mean experts of a step
  std::uint64_t steps = 0;
};

struct LockstepPlan {
  RoutePolicy policy = {};                  // of the measured rows
  std::uint32_t batch = 16;                 // documents of a group
  std::span<const std::size_t> order = {};  // documents, grouped one after the other; a rest is left out
  std::uint32_t remap_prefix_rows = 0;      // rows before the measured ones that `prefix_policy` routes
  RoutePolicy prefix_policy = {};
  std::uint32_t exact_rows = 0;  // so many of each group ask for exactness (lynx.exact)
};

// Overwrites the cache from the first row that it steps through.
RunOutcome run_lockstep(ExactRun& exact, const LockstepPlan& plan);

}  // namespace lynx
