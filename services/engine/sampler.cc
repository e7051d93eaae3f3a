#include "services/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "services/engine/counter_rng.h"

namespace lynx {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr float kGreedyBelow = 1e-5F;  // dividing by less would overflow; vLLM draws the line here too

// Finite, or -inf (a token that the model itself rules out); at least one finite.
bool usable(std::span<const float> logits) {
  bool any = false;
  for (const float x : logits) {
    if (std::isnan(x) || x == std::numeric_limits<float>::infinity()) return false;
    any |= std::isfinite(x);
  }
  return any;
}

struct LogNormalizer {
  double max = 0;
  double log_sum = 0;
  double logprob(float logit) const { return static_cast<double>(logit) - max - log_sum; }
};

LogNormalizer normalizer_of(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  return {max, std::log(sum)};
}

}  // namespace

Result<SampledTokenData> Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                                         const SamplingContext& context) {
  if (!usable(logits)) return {ErrorCode::kInternal, "the model gave logits that are not numbers"};
  scores_.assign(logits.begin(), logits.end());
  adjust(params, context);
  const std::optional<TokenId> token = choose(params, context.tokens.size());
  if (!token) return {ErrorCode::kInternal, "no token is left to sample"};
  SampledTokenData out;
  out.token = *token;
  out.index = static_cast<std::uint32_t>(context.tokens.size()) - context.prompt_tokens;
  if (params.logprobs) fill_logprobs(logits, params, out);
  return out;
}

void Sampler::adjust(const SamplingParams& params, const SamplingContext& context) {
  const auto index = context.tokens.size() - context.prompt_tokens;
  if (index < params.min_tokens) {
    for (const TokenId token : context.eos)
      if (token < scores_.size()) scores_[token] = kBanned;
  }
  for (const auto& [token, bias] : params.logit_bias)
    if (token < scores_.size()) scores_[token] += bias;
  if (params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0)
    penalize(params, context);
}

void Sampler::penalize(const SamplingParams& params, const SamplingContext& context) {
  generated_.resize(scores_.size(), 0);
  seen_.resize(scores_.size(), 0);
  const auto generated = context.tokens.subspan(context.prompt_tokens);
  for (const TokenId token : generated) ++generated_[token];
  for (const TokenId token : context.tokens) {
    if (seen_[token] != 0) continue;  // however often it occurs, it is penalized once
    seen_[token] = 1;
    float& score = scores_[token];
    score = score > 0 ? score / params.repetition_penalty : score * params.repetition_penalty;
    const auto count = static_cast<float>(generated_[token]);
    if (count > 0) score -= params.frequency_penalty * count + params.presence_penalty;
  }
  for (const TokenId token : context.tokens) generated_[token] = seen_[token] = 0;
}

std::optional<TokenId> Sampler::choose(const SamplingParams& params, std::uint64_t position) {
  const auto best = std::max_element(scores_.begin(), scores_.end());  // the first of equals: the smaller id
  if (!std::isfinite(*best)) return std::nullopt;
  if (params.temperature < kGreedyBelow) return static_cast<TokenId>(best - scores_.begin());

  // exp((score - best) / temperature) >= min_p, said in scores so that one pass does both.
  const float floor = params.min_p > 0 ? *best + params.temperature * std::log(params.min_p) : kBanned;
  candidates_.clear();
  for (std::size_t i = 0; i < scores_.size(); ++i)
    if (scores_[i] >= floor && scores_[i] != kBanned)
      candidates_.push_back({scores_[i], static_cast<TokenId>(i)});

  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.token < b.token;
  };
  if (params.top_k > 0 && params.top_k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params.top_k, candidates_.end(), better);
    candidates_.resize(params.top_k);
  }
  const float top = *best;
  for (Candidate& c : candidates_) c.score = std::exp((c.score - top) / params.temperature);
  return draw(candidates_, params.top_p, uniform_at(params.seed, position));
}

// Candidates hold probabilities that are not normalised. A heap hands them out from the most probable down,
// so that the cost is that of the nucleus and not of sorting the vocabulary.
TokenId Sampler::draw(std::span<Candidate> candidates, double top_p, double uniform) {
  const auto worse = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.token > b.token;
  };
  double total = 0;
  for (const Candidate& c : candidates) total += c.score;
  std::size_t kept = candidates.size();
  if (top_p < 1) {
    std::make_heap(candidates.begin(), candidates.end(), worse);
    double mass = 0;
    auto end = candidates.end();
    while (end != candidates.begin() && (end == candidates.end() || mass < top_p * total)) {
      std::pop_heap(candidates.begin(), end--, worse);
      mass += end->score;
    }
    kept = static_cast<std::size_t>(candidates.end() - end);
    total = mass;
  }
  const auto nucleus = candidates.last(kept);
  // By token id: the draw must not depend on how the selections above shuffled their leavings.
  const auto by_token = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(nucleus.begin(), nucleus.end(), by_token))
    std::sort(nucleus.begin(), nucleus.end(), by_token);
  double left = uniform * total;
  TokenId last = nucleus.front().token;
  for (const Candidate& c : nucleus) {
    if (c.score == 0) continue;
    last = c.token;
    left -= c.score;
    if (left < 0) break;
  }
  return last;
}

void Sampler::fill_logprobs(std::span<const float> logits, const SamplingParams& params,
                            SampledTokenData& out) {
  const LogNormalizer norm = normalizer_of(logits);
  out.logprob = static_cast<float>(norm.logprob(logits[out.token]));
  if (params.top_logprobs == 0) return;
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_.push_back({logits[i], static_cast<TokenId>(i)});
  const auto count = std::min<std::size_t>(params.top_logprobs, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates_.end(), [](const Candidate& a, const Candidate& b) {
                      return a.score != b.score ? a.score > b.score : a.token < b.token;
                    });
  for (std::size_t i = 0; i < count; ++i)
    out.top_logprobs.emplace_back(candidates_[i].token,
                                  static_cast<float>(norm.logprob(candidates_[i].score)));
}

}  // namespace lynx
