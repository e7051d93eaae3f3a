#include "loadtest/quality/affinity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loadtest/quality/curves.h"

namespace lynx {
namespace {

std::vector<double> ranks_of(const std::vector<double>& v) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return v[a] < v[b]; });
  std::vector<double> ranks(v.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i;
    while (j < order.size() && v[order[j]] == v[order[i]]) ++j;
    for (std::size_t t = i; t < j; ++t) ranks[order[t]] = static_cast<double>(i + j - 1) / 2;
    i = j;
  }
  return ranks;
}

class Histograms {
 public:
  explicit Histograms(const ExactRun& exact) : exact_(exact), config_(exact.model_config()) {
    const std::uint32_t rows = exact.length() - 1;
    for (std::size_t d = 0; d < exact.documents().size(); ++d)
      for (std::uint32_t l = 0; l < config_.layers; ++l) {
        prefill_.push_back(count(d, l, 0, exact.first_row()));
        decode_.push_back(count(d, l, exact.first_row(), rows));
      }
  }
  const std::vector<double>& prefill(std::size_t d, std::uint32_t layer) const {
    return prefill_[d * config_.layers + layer];
  }
  const std::vector<double>& decode(std::size_t d, std::uint32_t layer) const {
    return decode_[d * config_.layers + layer];
  }
  // Experts of `layer` that the documents' rows at `row` need together.
  std::size_t unite(std::span<const std::size_t> group, std::uint32_t layer, std::uint32_t row) const {
    std::vector<std::uint8_t> seen(config_.router.experts, 0);
    for (const std::size_t d : group)
      for (const std::uint16_t e : experts(d, layer, row)) seen[e] = 1;
    return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), 1));
  }
  std::uint32_t layers() const { return config_.layers; }

 private:
  std::span<const std::uint16_t> experts(std::size_t d, std::uint32_t layer, std::uint32_t row) const {
    const std::size_t k = config_.router.top_k, rows = exact_.length() - 1;
    return std::span(exact_.exact(d).top).subspan((layer * rows + row) * k, k);
  }
  std::vector<double> count(std::size_t d, std::uint32_t layer, std::uint32_t from, std::uint32_t to) const {
    std::vector<double> counts(config_.router.experts, 0);
    for (std::uint32_t row = from; row < to; ++row)
      for (const std::uint16_t e : experts(d, layer, row)) counts[e] += 1;
    return counts;
  }

  const ExactRun& exact_;
  const ModelConfig& config_;
  std::vector<std::vector<double>> prefill_, decode_;  // [documents, layers]
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// How alike the prefill histograms of two documents are: mean cosine over layers.
double likeness(const Histograms& h, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::uint32_t l = 0; l < h.layers(); ++l)
    sum += dot(h.prefill(a, l), h.prefill(b, l)) /
           std::sqrt(dot(h.prefill(a, l), h.prefill(a, l)) * dot(h.prefill(b, l), h.prefill(b, l)));
  return sum / h.layers();
}

// Batches as a router would form them: the first that waits, then always the one most like those taken.
std::vector<std::size_t> greedy_order(const Histograms& h, std::vector<std::size_t> waiting,
                                      std::uint32_t batch) {
  std::vector<std::size_t> order;
  while (!waiting.empty()) {
    std::vector<double> score(waiting.size(), 0);
    for (std::uint32_t taken = 0; taken < batch && !waiting.empty(); ++taken) {
      const auto best = std::max_element(score.begin(), score.end()) - score.begin();
      const std::size_t chosen = waiting[static_cast<std::size_t>(best)];
      waiting.erase(waiting.begin() + best);
      score.erase(score.begin() + best);
      order.push_back(chosen);
      for (std::size_t i = 0; i < waiting.size(); ++i) score[i] += likeness(h, chosen, waiting[i]);
    }
  }
  return order;
}

double mean_union(const Histograms& h, const ExactRun& exact, const std::vector<std::size_t>& order,
                  std::uint32_t batch) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t g = 0; (g + 1) * batch <= order.size(); ++g)
    for (std::uint32_t l = 0; l < h.layers(); ++l)
      for (std::uint32_t i = 0; i < exact.measured(); ++i, ++count)
        sum += static_cast<double>(
            h.unite(std::span(order).subspan(g * batch, batch), l, exact.first_row() + i));
  return sum / static_cast<double>(count);
}

// The first other document after d, of d's topic or not; d itself when there is none.
std::size_t next_of(const ExactRun& exact, std::size_t d, bool same_topic) {
  const auto& documents = exact.documents();
  for (std::size_t i = 1; i < documents.size(); ++i) {
    const std::size_t other = (d + i) % documents.size();
    if ((documents[other].topic == documents[d].topic) == same_topic) return other;
  }
  return d;
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  for (double& v : x) v -= mean;
  for (double& v : y) v -= mean;
  const double scale = std::sqrt(dot(x, x) * dot(y, y));
  return scale > 0 ? dot(x, y) / scale : 0;
}

void measure_affinity(const ExactRun& exact, const std::vector<std::uint32_t>& batches, std::uint64_t seed,
                      Affinity& affinity) {
  const Histograms h(exact);
  affinity.own.resize(h.layers());
  affinity.other.resize(h.layers());
  affinity.same_topic.resize(h.layers());
  for (std::size_t d = 0; d < exact.documents().size(); ++d) {
    const std::size_t other = next_of(exact, d, false), same = next_of(exact, d, true);
    for (std::uint32_t l = 0; l < h.layers(); ++l) {
      affinity.own[l].add(rank_correlation(h.prefill(d, l), h.decode(d, l)));
      if (other != d) affinity.other[l].add(rank_correlation(h.prefill(d, l), h.decode(other, l)));
      if (same != d) affinity.same_topic[l].add(rank_correlation(h.prefill(d, l), h.decode(same, l)));
    }
  }
  affinity.unions.resize(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    auto& u = affinity.unions[i];
    u.batch = batches[i];
    if (u.batch > exact.documents().size()) continue;
    const auto random = mixed_order(exact, seed);
    u.random.add(mean_union(h, exact, random, u.batch));
    u.same_topic.add(mean_union(h, exact, alike_order(exact), u.batch));
    u.by_histogram.add(mean_union(h, exact, greedy_order(h, random, u.batch), u.batch));
  }
}

}  // namespace lynx
