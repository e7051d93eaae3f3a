#include "loadtest/quality/lockstep.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "common/core/check.h"

namespace lynx {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z - max));
  return max + std::log(sum);
}

std::size_t argmax(std::span<const float> v) {
  return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

class Lockstep {
 public:
  Lockstep(ExactRun& exact, const LockstepPlan& plan)
      : exact_(exact), plan_(plan), layers_(exact.model().config().layers) {
    out_.routed.assign(layers_, 0);
    out_.activated.assign(layers_, 0);
  }

  RunOutcome run() {
    const std::size_t groups = plan_.order.size() / plan_.batch;
    LYNX_CHECK(groups > 0, "documents for at least one group");
    for (std::size_t g = 0; g < groups; ++g) run_group(plan_.order.subspan(g * plan_.batch, plan_.batch));
    for (std::uint32_t l = 0; l < layers_; ++l) {
      out_.routed[l] /= static_cast<double>(out_.steps);
      out_.activated[l] /= static_cast<double>(out_.steps);
    }
    return std::move(out_);
  }

 private:
  void run_group(std::span<const std::size_t> group) {
    for (std::uint32_t i = plan_.remap_prefix_rows; i > 0; --i)
      step(group, exact_.first_row() - i, plan_.prefix_policy, {});
    std::vector<DocumentOutcome> sums(group.size());
    for (auto& sum : sums) sum.worst_mass = 1;
    for (std::uint32_t i = 0; i < exact_.measured(); ++i) {
      rows_.resize(group.size());
      std::iota(rows_.begin(), rows_.end(), 0U);
      step(group, exact_.first_row() + i, plan_.policy, rows_);
      read_layers(sums);
      for (std::size_t r = 0; r < group.size(); ++r) compare(group[r], i, r, sums[r]);
    }
    for (auto& sum : sums) {
      const double n = exact_.measured();
      sum.loss_change /= n;
      sum.kl /= n;
      sum.agreement /= n;
      sum.mass /= n;
      sum.remapped /= n;
      out_.documents.push_back(sum);
    }
  }

  // Row `position` of every document of the group.
  void step(std::span<const std::size_t> group, std::uint32_t position, const RoutePolicy& policy,
            std::span<const std::uint32_t> wanted) {
    tokens_.clear();
    sequences_.clear();
    exact_flags_.assign(plan_.exact_rows > 0 ? group.size() : 0, 0);
    std::fill_n(exact_flags_.begin(), plan_.exact_rows, 1);
    for (const std::size_t d : group) {
      sequences_.push_back({static_cast<std::uint32_t>(tokens_.size()), 1, position, exact_.exact(d).blocks});
      tokens_.push_back(exact_.documents()[d].tokens[position]);
    }
    StepBatch batch;
    batch.tokens = tokens_;
    batch.sequences = sequences_;
    batch.logit_rows = wanted;
    batch.exact_rows = exact_flags_;
    batch.policy = policy;
    batch.decode = true;
    exact_.model().forward(batch, exact_.cache(), result_, nullptr);
  }

  void read_layers(std::vector<DocumentOutcome>& sums) {
    token_mass_.assign(sums.size(), 0);
    const double k = exact_.model().config().router.top_k;
    for (std::uint32_t l = 0; l < layers_; ++l) {
      exact_.model().read_plan(l, routing_);
      if (routing_.row_mass_q24.size() < sums.size())
        throw std::runtime_error("--device: this one does not report what each row kept; take cpu");
      out_.routed[l] += routing_.stats.routed_experts;
      out_.activated[l] += routing_.stats.activated_experts;
      for (std::size_t r = 0; r < sums.size(); ++r) {
        token_mass_[r] += routing_.row_mass_q24[r] / 16777216.0 / layers_;
        sums[r].remapped += (1 - routing_.row_kept[r] / k) / layers_;
      }
    }
    for (std::size_t r = 0; r < sums.size(); ++r) {
      sums[r].mass += token_mass_[r];
      sums[r].worst_mass = std::min(sums[r].worst_mass, token_mass_[r]);
    }
    ++out_.steps;
  }

  void compare(std::size_t document, std::uint32_t i, std::size_t row, DocumentOutcome& sum) {
    const std::size_t vocab = exact_.model().config().vocab;
    const auto now = std::span(result_.logits).subspan(row * vocab, vocab);
    const auto then = exact_.logits(document, i);
    const double lse_now = log_sum_exp(now), lse_then = log_sum_exp(then);
    double kl = 0;
    for (std::size_t v = 0; v < vocab; ++v) {
      const double log_p = then[v] - lse_then;
      if (log_p > -30) kl += std::exp(log_p) * (log_p - (now[v] - lse_now));
    }
    const TokenId next = exact_.documents()[document].tokens[exact_.first_row() + i + 1];
    const double change = (lse_now - now[next]) - (lse_then - then[next]);
    sum.loss_change += change;
    sum.kl += kl;
    sum.agreement += argmax(now) == argmax(then) ? 1 : 0;
    out_.tokens.push_back({change, exact_.exact(document).confidence[i]});
  }

  ExactRun& exact_;
  const LockstepPlan& plan_;
  const std::uint32_t layers_;
  RunOutcome out_;
  StepResult result_;
  ExpertPlan routing_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::uint8_t> exact_flags_;
  std::vector<std::uint32_t> rows_;
  std::vector<double> token_mass_;
};

}  // namespace

RunOutcome run_lockstep(ExactRun& exact, const LockstepPlan& plan) { return Lockstep(exact, plan).run(); }

}  // namespace lynx
