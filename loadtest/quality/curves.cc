#include "loadtest/quality/curves.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

namespace lynx {

void Cell::add(const RunOutcome& run, double expert_bytes) {
  const auto layers = static_cast<double>(run.routed.size());
  const double r = std::accumulate(run.routed.begin(), run.routed.end(), 0.0) / layers;
  const double a = std::accumulate(run.activated.begin(), run.activated.end(), 0.0) / layers;
  routed.add(r);
  activated.add(a);
  saved_bytes.add((r - a) * layers * expert_bytes);
  layer_routed.resize(run.routed.size());
  layer_activated.resize(run.activated.size());
  for (std::size_t l = 0; l < run.routed.size(); ++l) {
    layer_routed[l].add(run.routed[l]);
    layer_activated[l].add(run.activated[l]);
  }
  double worst = 1, token = 1;
  for (const DocumentOutcome& d : run.documents) {
    loss_change.add(d.loss_change);
    kl.add(d.kl);
    agreement.add(d.agreement);
    mass.add(d.mass);
    remapped.add(d.remapped);
    worst = std::min(worst, d.mass);
    token = std::min(token, d.worst_mass);
  }
  worst_request.add(worst);
  worst_token.add(token);
}

std::vector<std::size_t> mixed_order(const ExactRun& exact, std::uint64_t seed) {
  std::vector<std::size_t> order(exact.documents().size());
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

std::vector<std::size_t> alike_order(const ExactRun& exact) {
  std::vector<std::size_t> order(exact.documents().size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return exact.documents()[a].topic < exact.documents()[b].topic;
  });
  return order;
}

namespace {

struct Point {  // of one seed
  std::string policy;
  bool is_default = false;
  double experts = 0, loss = 0, worst_request = 0;
};

Point point_of(const PolicySetting& setting, const RunOutcome& run) {
  Point p{.policy = setting.name, .is_default = setting.is_default};
  p.experts = std::accumulate(run.activated.begin(), run.activated.end(), 0.0) /
              static_cast<double>(run.activated.size());
  p.worst_request = 1;
  for (const auto& d : run.documents) {
    p.loss += d.loss_change / static_cast<double>(run.documents.size());
    p.worst_request = std::min(p.worst_request, d.mass);
  }
  return p;
}

// Where the curve of a policy has the given loss: linear between settings, in the logarithm of the loss.
// Empty outside of what was measured.
std::optional<Point> at_loss(std::vector<Point> curve, double loss) {
  std::sort(curve.begin(), curve.end(), [](const Point& a, const Point& b) { return a.loss < b.loss; });
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
    const Point &a = curve[i], &b = curve[i + 1];
    if (!(a.loss > 0 && a.loss <= loss && loss <= b.loss && a.loss < b.loss)) continue;
    const double t = std::log(loss / a.loss) / std::log(b.loss / a.loss);
    Point p = a;
    p.experts += t * (b.experts - a.experts);
    p.worst_request += t * (b.worst_request - a.worst_request);
    return p;
  }
  return std::nullopt;
}

template <typename T, typename Match>
T& find_or_add(std::vector<T>& list, const Match& match, T fresh) {
  const auto at = std::find_if(list.begin(), list.end(), match);
  if (at != list.end()) return *at;
  list.push_back(std::move(fresh));
  return list.back();
}

Cell& cell_of(Results& results, const PolicySetting& s, std::uint32_t batch, const std::string& mix) {
  Cell fresh;
  fresh.policy = s.name;
  fresh.label = s.label;
  fresh.mix = mix;
  fresh.is_default = s.is_default;
  fresh.batch = batch;
  return find_or_add(
      results.cells, [&](const Cell& c) { return c.label == s.label && c.batch == batch && c.mix == mix; },
      fresh);
}

std::vector<Point> curve_of(const std::vector<Point>& points, const std::string& policy) {
  std::vector<Point> curve;
  std::copy_if(points.begin(), points.end(), std::back_inserter(curve),
               [&](const Point& p) { return p.policy == policy; });
  return curve;
}

void compare_at_loss_of(const Point& reference, const std::vector<Point>& points, std::uint32_t batch,
                        Results& results) {
  if (reference.loss <= 0) return;
  for (const Point& p : points) {
    if (!p.is_default || p.policy == reference.policy) continue;  // one point of each curve
    const auto there = at_loss(curve_of(points, p.policy), reference.loss);
    if (!there) continue;
    EqualLoss fresh;
    fresh.policy = p.policy;
    fresh.reference = reference.policy;
    fresh.batch = batch;
    EqualLoss& e = find_or_add(
        results.equal_loss,
        [&](const EqualLoss& x) {
          return x.policy == p.policy && x.reference == reference.policy && x.batch == batch;
        },
        fresh);
    e.experts_change.add(there->experts / reference.experts - 1);
    e.worst_request_change.add(there->worst_request - reference.worst_request);
  }
}

void compare_at_equal_loss(const std::vector<Point>& points, std::uint32_t batch, Results& results) {
  for (const char* name : {"lynx", "lynx/renormalised"})
    for (const Point& p : points)
      if (p.policy == name && p.is_default) compare_at_loss_of(p, points, batch, results);
}

bool fits(std::uint32_t batch, std::size_t documents) { return batch <= documents; }

}  // namespace

std::size_t count_curves(const CurvePlan& plan, std::size_t documents) {
  std::size_t runs = 0;
  for (const std::uint32_t batch : plan.batches)
    if (fits(batch, documents))
      for (const auto& s : plan.settings) runs += s.is_default ? 2 : 1;
  return runs;
}

void measure_curves(ExactRun& exact, const CurvePlan& plan, std::uint64_t seed, Results& results,
                    Progress& progress) {
  const double bytes = static_cast<double>(exact.model().config().expert_bytes());
  const auto mixed = mixed_order(exact, seed), alike = alike_order(exact);
  for (const std::uint32_t batch : plan.batches) {
    if (!fits(batch, exact.documents().size())) continue;
    std::vector<Point> points;
    for (const PolicySetting& s : plan.settings) {
      progress.begin(s.label + ", B = " + std::to_string(batch));
      const auto run = run_lockstep(exact, {.policy = s.policy, .batch = batch, .order = mixed});
      cell_of(results, s, batch, "mixed").add(run, bytes);
      points.push_back(point_of(s, run));
      if (!s.is_default) continue;
      progress.begin(s.label + ", B = " + std::to_string(batch) + ", one topic");
      cell_of(results, s, batch, "alike")
          .add(run_lockstep(exact, {.policy = s.policy, .batch = batch, .order = alike}), bytes);
    }
    compare_at_equal_loss(points, batch, results);
  }
}

}  // namespace lynx
