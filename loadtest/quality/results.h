// Everything that a run of the laboratory finds, before it is written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/lynx/policy.h"
#include "loadtest/quality/estimate.h"
#include "loadtest/quality/lockstep.h"

namespace lynx {

// One policy setting at one batch size and mix, over all seeds. Errors are over documents; those of the
// expert counts and the savings over seeds.
struct Cell {
  std::string policy, label, mix;  // mix: "mixed" or "alike" (documents of one topic)
  bool is_default = false;
  std::uint32_t batch = 0;
  Estimate routed, activated, saved_bytes;  // experts of a layer and step; bytes of a step not read
  Estimate loss_change, kl, agreement, mass, worst_token, remapped;
  Estimate worst_request;  // of a seed's documents
  std::vector<Estimate> layer_activated, layer_routed;

  void add(const RunOutcome& run, double expert_bytes);
};

// Experts that a policy needs at the loss of lynx, from its curve of settings; per seed.
struct EqualLoss {
  std::string policy, reference;  // reference: lynx at its default, by the name of its curve
  std::uint32_t batch = 0;
  Estimate experts_change;        // against the reference's, -0.1 = a tenth fewer
  Estimate worst_request_change;  // of the worst request's mass, at that point
};

struct RankLoss {  // deny one rank at a time
  std::uint32_t rank = 0;
  Estimate loss_change, agreement;
  std::vector<Estimate> by_confidence;  // quarters of the tokens, least confident first
};

struct PhaseLoss {  // the same policy on as many rows of the prefix, or of the continuation
  std::string policy, phase;
  Estimate loss_change, kl;
};

struct ConfidenceLoss {
  std::string policy;
  std::vector<Estimate> quarters;  // loss change, least confident first
};

struct TaskScore {
  std::string label;
  std::uint32_t batch = 0;
  std::map<std::string, Estimate> kinds;
  Estimate all, same_as_exact;
};

struct LongRun {  // greedy generations of 512 tokens
  std::string label;
  Estimate same_prefix;  // tokens before the text first differs from the exact model's
  Estimate exact_loss;   // nats per token that the exact model gives to the text
  Estimate distinct;     // share of distinct 4-grams
};

struct ExactCost {  // rows that ask for exactness in a batch
  std::uint32_t batch = 0, exact_rows = 0;
  Estimate activated, others_loss_change, others_mass;
};

struct Affinity {
  std::vector<Estimate> own, other, same_topic;  // [layers] rank correlation of a prefix with a continuation
  struct Union {
    std::uint32_t batch = 0;
    Estimate random, same_topic, by_histogram;  // experts of a layer and step, exact
  };
  std::vector<Union> unions;
};

struct PlacementGain {  // decode workers of so many slots, by what the router knows of a request's experts
  struct Run {
    Estimate experts;    // of a layer and step of one worker
    Estimate per_token;  // experts read, in all, for each token and layer
    Estimate fullest;    // the fullest worker's batch against the mean
  };
  std::uint32_t batch = 0;
  Run least_loaded, by_topic, by_own;
};

struct Results {
  std::string model, text, device, date;
  RouterShape shape;
  std::uint32_t layers = 0, documents = 0, prefix = 0, length = 0, seeds = 0;
  double expert_bytes = 0;
  Estimate exact_loss, exact_accuracy;
  std::vector<Cell> cells;
  std::vector<EqualLoss> equal_loss;
  std::vector<RankLoss> ranks;
  std::vector<PhaseLoss> phases;
  std::vector<ConfidenceLoss> confidence;
  std::vector<ExactCost> exact_cost;
  std::vector<TaskScore> tasks;
  std::vector<LongRun> long_runs;
  Affinity affinity;
  std::vector<PlacementGain> placement;
};

}  // namespace lynx
