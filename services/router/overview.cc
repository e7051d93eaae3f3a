#include "services/router/overview.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/core/version.h"

namespace lynx {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kAll = 2;  // index of the objective "all" in RouterMetrics::PerClass::slo

std::pair<double, double> met_and_all(const RouterMetrics::PerClass& metrics) {
  const auto& counters = metrics.slo[kAll];
  return {counters[1]->Value(), counters[0]->Value() + counters[1]->Value()};
}

const char* state_of(const Worker& worker, Clock::time_point now) {
  if (worker.missing) return "missing";
  if (worker.health.draining) return "draining";
  return worker.standing.aside(now) ? "put_aside" : "serving";
}

json worker_json(const Worker& worker, Clock::time_point now) {
  return {
      {"name", worker.info.name},
      {"role", to_string(worker.info.role)},
      {"state", state_of(worker, now)},
      {"put_aside", worker.standing.pauses()},
      {"reserved", worker.requests},
      {"running", worker.health.running},
      {"waiting", worker.health.waiting},
      {"max_batch", worker.info.max_batch},
      {"free_blocks", worker.health.free_blocks},
      {"total_blocks", worker.info.total_blocks},
      {"step_ms", 1e3F * worker.health.step_seconds},
      {"routed_experts", worker.health.routed_experts},
      {"activated_experts", worker.health.activated_experts},
      {"transport", worker.health.transport},
      {"metrics", worker.info.metrics_address},
      {"heard_ms_ago", std::chrono::duration_cast<std::chrono::milliseconds>(now - worker.heard).count()}};
}

// A curve: one number per sample, null where there is nothing to say.
template <typename Moments, typename Value>
json curve(const Moments& moments, Value value) {
  json out = json::array();
  for (const auto& moment : moments) out.push_back(value(moment));
  return out;
}

json known(bool is_known, double value) { return is_known ? json(value) : json(); }

}  // namespace

Overview::Overview(const Dispatcher& dispatcher, RouterMetrics& metrics, const std::vector<SloClass>& classes,
                   std::string model)
    : dispatcher_(dispatcher), model_(std::move(model)) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    RouterMetrics::PerClass& of = metrics.of(i);
    classes_.push_back({&classes[i],
                        &of,
                        RecentHistogram(*of.ttft, kWindow),
                        RecentHistogram(*of.tpot, kWindow),
                        RecentHistogram(*of.itl, kWindow),
                        {met_and_all(of)}});
  }
}

void Overview::sample() {
  Moment now{.in_flight = dispatcher_.live(), .queued = dispatcher_.queued()};
  for (ClassWatch& watch : classes_) {
    for (RecentHistogram* histogram : {&watch.ttft, &watch.tpot, &watch.itl}) histogram->snapshot();
    const auto before = watch.kept.back();
    watch.kept.push_back(met_and_all(*watch.metrics));
    if (watch.kept.size() > kWindow + 1) watch.kept.pop_front();
    now.met += watch.kept.back().first - before.first;
    now.judged += watch.kept.back().second - before.second;
    now.tokens += static_cast<double>(watch.ttft.last_count() + watch.itl.last_count());
  }
  double stepped = 0;
  for (const auto& [id, worker] : dispatcher_.workers().all()) {
    if (worker.info.role != WorkerRole::kDecode || worker.health.activated_experts <= 0) continue;
    now.routed += worker.health.routed_experts;
    now.activated += worker.health.activated_experts;
    ++stepped;
  }
  if (stepped > 0) {
    now.routed /= stepped;
    now.activated /= stepped;
  }
  history_.push_back(now);
  if (history_.size() > kHistory) history_.pop_front();
}

std::string Overview::to_json(Clock::time_point now) const {
  using nlohmann::ordered_json;
  ordered_json classes = ordered_json::array(), workers = ordered_json::array();
  for (const ClassWatch& watch : classes_) {
    const double met = watch.kept.back().first - watch.kept.front().first;
    const double judged = watch.kept.back().second - watch.kept.front().second;
    const auto ms = [](const RecentHistogram& histogram, double q) {
      return known(histogram.count() > 0, 1e3 * histogram.quantile(q));
    };
    classes.push_back({{"name", watch.promise->name},
                       {"queued", watch.metrics->depth->Value()},
                       {"judged", judged},
                       {"attainment", known(judged > 0, met / judged)},
                       {"ttft_objective_ms", watch.promise->ttft.count()},
                       {"ttft_p50_ms", ms(watch.ttft, 0.5)},
                       {"ttft_p99_ms", ms(watch.ttft, 0.99)},
                       {"tpot_objective_ms", watch.promise->tpot.count()},
                       {"tpot_p50_ms", ms(watch.tpot, 0.5)},
                       {"tpot_p99_ms", ms(watch.tpot, 0.99)}});
  }
  for (const auto& [id, worker] : dispatcher_.workers().all()) workers.push_back(worker_json(worker, now));
  const ordered_json out{
      {"model", model_},
      {"version", version()},
      {"ready", dispatcher_.ready()},
      {"in_flight", dispatcher_.live()},
      {"queued", dispatcher_.queued()},
      {"window_s", kWindow},
      {"classes", classes},
      {"workers", workers},
      {"history",
       {{"period_s", kPeriod.count()},
        {"in_flight", curve(history_, [](const Moment& m) { return ordered_json(m.in_flight); })},
        {"queued", curve(history_, [](const Moment& m) { return ordered_json(m.queued); })},
        {"tokens_per_s", curve(history_, [](const Moment& m) { return ordered_json(m.tokens); })},
        {"attainment",
         curve(history_, [](const Moment& m) { return known(m.judged > 0, m.met / m.judged); })},
        {"routed", curve(history_, [](const Moment& m) { return known(m.routed > 0, m.routed); })},
        {"activated",
         curve(history_, [](const Moment& m) { return known(m.activated > 0, m.activated); })}}}};
  // Names come from workers: any bytes.
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace lynx
