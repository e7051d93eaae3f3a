// What a policy sees of one batch and the set of experts it chooses. The working memory of route_reference:
// kept from call to call, so that a steady batch size allocates nothing. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/lynx/derived_policy.h"
#include "kernels/lynx/policy.h"

namespace lynx {

// The total order of a row's experts: falling logit, then rising index.
inline bool ranks_before(std::span<const float> row, std::uint32_t a, std::uint32_t b) {
  return row[a] > row[b] || (row[a] == row[b] && a < b);
}

struct Selection {
  RouterShape shape;
  DerivedPolicy policy;
  std::span<const float> logits;      // [B, N]
  std::vector<std::uint32_t> voters;  // live rows without a NaN, ascending
  std::vector<std::uint32_t> top;     // [B, k] exact top-k in rank order; voters only
  std::vector<std::uint8_t> active;   // [N] the set A
  std::uint32_t active_count = 0;
  // What ranks an expert when A has to be filled up to k: first these numbers, most significant first (lynx;
  // else none), then the summed probability.
  std::uint32_t digits_per_expert = 0;
  std::vector<std::uint32_t> digits;       // [N, digits_per_expert]
  std::vector<std::uint64_t> probability;  // [N] sum over voters, Q31; empty until sum_probabilities

  std::vector<std::uint64_t> energy;    // [N] energy: sum over voters of squared shares, Q24
  std::vector<std::uint32_t> unserved;  // energy, k = 1

  void reset(const RouterShape& new_shape, const DerivedPolicy& new_policy, std::span<const float> new_logits,
             std::size_t rows);

  std::span<const float> row(std::uint32_t r) const {
    return logits.subspan(std::size_t{r} * shape.experts, shape.experts);
  }
  std::span<std::uint32_t> top_of(std::uint32_t r) {
    return std::span(top).subspan(std::size_t{r} * shape.top_k, shape.top_k);
  }
  std::span<const std::uint32_t> top_of(std::uint32_t r) const {
    return std::span(top).subspan(std::size_t{r} * shape.top_k, shape.top_k);
  }
  std::span<std::uint32_t> digits_of(std::uint32_t e) {
    return std::span(digits).subspan(std::size_t{e} * digits_per_expert, digits_per_expert);
  }

  void activate(std::uint32_t expert);
  void activate_top_ranks(std::uint32_t ranks);  // of every voter
  void sum_probabilities();
  void fill_to(std::uint32_t count);  // with the best of the experts left out; needs a voter

 private:
  bool fills_before(std::uint32_t a, std::uint32_t b);
};

// One per policy: chooses A from the voters' logits. Top-1 experts (but for energy with k = 1), exact rows
// and the fill to k are the caller's.
void select_off(Selection& s);
void select_lynx(Selection& s);
void select_share(Selection& s);
void select_oea(Selection& s);
void select_xshare(Selection& s);
void select_top_k_reduced(Selection& s);
void select_energy(Selection& s);
void select_sweep(Selection& s);

}  // namespace lynx
