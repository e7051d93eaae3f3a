// What goes into one step of a device, and what comes out: rows of tokens in, sampled tokens (or logits) and
// the statistics of expert routing out. T rows of the batch, R rows whose logits are wanted, V vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/kv/page_layout.h"
#include "common/text/token.h"
#include "kernels/lynx/policy.h"

namespace lynx {

// Rows of one sequence: consecutive in the batch and consecutive in position.
struct SequenceRows {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t context = 0;        // tokens of the sequence already in the cache: position of the first row
  std::span<const BlockId> blocks;  // its block table; covers context + rows tokens
};

// How the token after one row is drawn, where the device may do it. Semantics: services/engine/sampler.h,
// which does the rows that ask for more (penalties, biases, log-probabilities) from their logits.
struct RowSampling {
  bool on_device = false;
  float temperature = 0;  // 0 = greedy
  std::uint32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  double uniform = 0;   // the draw, in [0, 1)
  bool logits = false;  // wanted even where the device draws, which they do not change
};

struct StepBatch {
  std::span<const TokenId> tokens;            // [T]
  std::span<const SequenceRows> sequences;    // cover rows 0..T-1 in order
  std::span<const std::uint32_t> logit_rows;  // [R] ascending
  std::span<const std::uint8_t> exact_rows;   // [T] or empty: rows that keep their full top-k
  RoutePolicy policy{};                       // kOff in prefill, always
  std::span<const RowSampling> sampling{};    // [R] or empty: the logits of every row are wanted
  bool decode = false;  // one row per sequence, a shape that comes again and again: see Backend::run_step
  bool row_routing = false;  // StepResult::routing is wanted; of decode steps alone
};

// The outcome of one of the R rows.
struct RowSample {
  enum class State : std::uint8_t {
    kLogits,    // not sampled on the device: its logits are in StepResult::logits
    kToken,     // sampled
    kUnusable,  // the logits held NaN or +inf
  };
  State state = State::kLogits;
  TokenId token = 0;
  float logprob = 0;  // of the raw distribution
};

// What the plans of a step did to one row, summed over its layers: see PlanStats.
struct RowRouting {
  std::uint32_t remapped = 0;  // assignments
  std::uint64_t mass_q24 =
      0;  // kept of the row's exact top-k, in units of 2^-24 of it: at most layers * 2^24
};

struct StepResult {
  std::vector<RowSample> samples;   // [R]
  std::vector<float> logits;        // [rows in state kLogits or asked for, V], in order of the rows
  std::vector<PlanStats> layers;    // [layers]
  std::vector<RowRouting> routing;  // [T], or empty where the batch did not ask for it
  std::uint32_t computed_rows = 0;  // T, and what the device padded it with: the bucket of a captured step
};

}  // namespace lynx
