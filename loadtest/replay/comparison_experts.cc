#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "loadtest/replay/comparison.h"

namespace lynx {
namespace {

// Fewer moments than this say nothing of how much the figure varies.
constexpr std::size_t kFewestMoments = 10;
constexpr double kMost = 1e12;  // of anything in a second; a file may say anything

double over(double a, double b) { return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN(); }

// What the decode workers of one side did between two samples. All zero: no step.
struct Moment {
  double from_s = 0, to_s = 0;
  double layer_steps = 0;
  double routed = 0, activated = 0;  // experts, summed over the layer-steps
  double token_layers = 0;           // sequences, summed over the layer-steps
};

Moment moment_of(const FleetCurves& fleet, std::size_t i) {
  const double from = fleet.at_s[i - 1], to = fleet.at_s[i], n = fleet.layer_steps[i];
  const auto sound = [](double value) { return value >= 0 && value < kMost; };
  if (!(n > 0 && sound(n) && sound(fleet.batch[i]) && sound(fleet.routed[i]) && sound(fleet.activated[i])))
    return {.from_s = from, .to_s = to};
  return {from, to, n, fleet.routed[i] * n, fleet.activated[i] * n, fleet.batch[i] * n};
}

std::vector<Moment> moments_of(const FleetCurves& fleet, double warm_up_s) {
  std::vector<Moment> out;
  for (std::size_t i = 0; i + 1 < fleet.at_s.size(); ++i)  // the point at i + 1 covers the time from i
    if (fleet.at_s[i] >= warm_up_s && fleet.at_s[i + 1] > fleet.at_s[i])
      out.push_back(moment_of(fleet, i + 1));
  return out;
}

// Half of the usual time between two samples: a moment has no more than one like it on the other side.
double tolerance(const std::vector<Moment>& a, const std::vector<Moment>& b) {
  std::vector<double> lengths;
  for (const auto* side : {&a, &b})
    for (const Moment& moment : *side) lengths.push_back(moment.to_s - moment.from_s);
  std::ranges::sort(lengths);
  return lengths.empty() ? 0 : lengths[lengths.size() / 2] / 2;
}

// Leaves the moments that both sides have, in step. A scrape that was still busy when the next was due makes
// one long moment of two, on one side alone.
void keep_pairs(std::vector<Moment>& a, std::vector<Moment>& b) {
  const double apart = tolerance(a, b);
  std::vector<Moment> of_a, of_b;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (std::abs(a[i].from_s - b[j].from_s) < apart && std::abs(a[i].to_s - b[j].to_s) < apart) {
      of_a.push_back(a[i++]);
      of_b.push_back(b[j++]);
    } else {
      ++(a[i].to_s < b[j].to_s ? i : j);
    }
  }
  a = std::move(of_a);
  b = std::move(of_b);
}

struct Figure {
  const char* name;
  double Moment::*amount;
  double Moment::*per;
};
constexpr Figure kFigures[] = {
    {"unique experts routed", &Moment::routed, &Moment::layer_steps},
    {"unique experts activated", &Moment::activated, &Moment::layer_steps},
    {"experts read per token", &Moment::activated, &Moment::token_layers},
    {"sequences", &Moment::token_layers, &Moment::layer_steps},
};

// NaN: the side made no step.
double figure_of(const std::vector<Moment>& side, const Figure& figure, std::span<const std::size_t> drawn) {
  double amount = 0, per = 0;
  for (const std::size_t i : drawn) {
    amount += side[i].*figure.amount;
    per += side[i].*figure.per;
  }
  return over(amount, per);
}

// Experts grow with the batch, and no two runs have the same batches: a machine that is slow for a while has
// more sequences at once. So the two sides are fitted together, each moment weighing its layer-steps,
//   ln experts = [side's own] + q ln batch + r (ln batch)^2,
// and compared where their batches are equal.
class AtEqualBatch {
 public:
  explicit AtEqualBatch(double Moment::*amount) : amount_(amount) {}

  void add(const Moment& moment, bool second_side) {
    if (!(moment.layer_steps > 0 && moment.*amount_ > 0 && moment.token_layers > 0)) return;
    const double batch = std::log(moment.token_layers / moment.layer_steps);
    const std::array<double, kTerms> x{1, second_side ? 1.0 : 0.0, batch, batch * batch};
    const double y = std::log(moment.*amount_ / moment.layer_steps);
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) sums_[i][j] += moment.layer_steps * x[i] * x[j];
      sums_[i][kTerms] += moment.layer_steps * x[i] * y;
    }
  }

  struct Sides {
    double a = 0, b = 0;                         // experts at the mean of ln batch
    double ratio() const { return over(a, b); }  // NaN: a side did nothing
  };
  Sides solve() const {
    auto m = sums_;
    if (!(m[1][1] > 0 && m[1][1] < m[0][0])) return {};  // a side did nothing
    const double batch = m[0][2] / m[0][0];
    std::array<double, kTerms> p{};
    for (std::size_t i = 0; i < kTerms; ++i) {  // symmetric and positive: no pivoting
      if (m[i][i] <= 1e-9 * sums_[i][i]) m[i][i] = std::numeric_limits<double>::infinity();  // adds nothing
      for (std::size_t k = i + 1; k < kTerms; ++k) {
        const double factor = m[k][i] / m[i][i];
        for (std::size_t j = i + 1; j <= kTerms; ++j) m[k][j] -= factor * m[i][j];
      }
    }
    for (std::size_t i = kTerms; i-- > 0;) {
      double rest = m[i][kTerms];
      for (std::size_t j = i + 1; j < kTerms; ++j) rest -= m[i][j] * p[j];
      p[i] = rest / m[i][i];
    }
    const double a = p[0] + p[2] * batch + p[3] * batch * batch;
    return {std::exp(a), std::exp(a + p[1])};
  }

 private:
  static constexpr std::size_t kTerms = 4;
  double Moment::*amount_;
  std::array<std::array<double, kTerms + 1>, kTerms> sums_{};
};

PairedExperts at_equal_batch(const std::vector<Moment>& of_a, const std::vector<Moment>& of_b,
                             const Figure& figure, std::span<const std::size_t> all,
                             const BootstrapOptions& options) {
  const auto sides = [&](std::span<const std::size_t> drawn) {
    AtEqualBatch fit(figure.amount);
    for (const std::size_t i : drawn) {
      fit.add(of_a[i], false);
      fit.add(of_b[i], true);
    }
    return fit.solve();
  };
  PairedExperts out{.name = std::string(figure.name) + ", at equal batch"};
  out.a = sides(all).a;
  out.b = sides(all).b;
  out.ratio = bootstrap_interval(
      all.size(), [&](std::span<const std::size_t> drawn) { return sides(drawn).ratio(); }, options);
  return out;
}

PairedExperts as_it_was(const std::vector<Moment>& of_a, const std::vector<Moment>& of_b,
                        const Figure& figure, std::span<const std::size_t> all,
                        const BootstrapOptions& options) {
  PairedExperts out{.name = figure.name};
  const auto or_zero = [](double value) { return std::isfinite(value) ? value : 0; };
  out.a = or_zero(figure_of(of_a, figure, all));
  out.b = or_zero(figure_of(of_b, figure, all));
  out.ratio = bootstrap_interval(
      all.size(),
      [&](std::span<const std::size_t> drawn) {
        return over(figure_of(of_a, figure, drawn), figure_of(of_b, figure, drawn));
      },
      options);
  return out;
}

}  // namespace

std::vector<PairedExperts> compare_experts(const FleetCurves& a, const FleetCurves& b, double warm_up_s,
                                           const BootstrapOptions& options) {
  auto of_a = moments_of(a, warm_up_s), of_b = moments_of(b, warm_up_s);
  keep_pairs(of_a, of_b);
  const std::size_t moments = of_a.size();
  std::vector<PairedExperts> out;
  if (moments < kFewestMoments) return out;
  std::vector<std::size_t> all(moments);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const Figure& figure : kFigures) out.push_back(as_it_was(of_a, of_b, figure, all, options));
  for (const Figure& figure : {kFigures[0], kFigures[1]})
    out.push_back(at_equal_batch(of_a, of_b, figure, all, options));
  return out;
}

}  // namespace lynx
