#include "loadtest/replay/report.h"

#include <algorithm>
#include <cmath>

#include "loadtest/replay/timeline.h"

namespace lynx {
namespace {

double milliseconds(Clock::duration d) { return seconds(d) * 1e3; }

void judge(ClassReport& out, const Outcome& outcome) {
  ++out.requests;
  if (!outcome.completed()) return;
  SloTarget ttft = out.slo, tpot = out.slo;
  ttft.tpot = tpot.ttft = std::chrono::microseconds(0);  // one objective each
  out.met_ttft += within(ttft, outcome) ? 1 : 0;
  out.met_tpot += within(tpot, outcome) ? 1 : 0;
  out.met += within(out.slo, outcome) ? 1 : 0;
}

// Pieces of text in the best second of the run's own grid.
double peak_rate(const std::vector<Outcome>& outcomes) {
  std::map<std::int64_t, std::size_t> per_second;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.completed() || outcome.warm_up) continue;
    Clock::duration at = outcome.sent_at + outcome.ttft;
    ++per_second[static_cast<std::int64_t>(seconds(at))];
    for (const Clock::duration gap : outcome.itl) ++per_second[static_cast<std::int64_t>(seconds(at += gap))];
  }
  std::size_t best = 0;
  for (const auto& [second, pieces] : per_second) best = std::max(best, pieces);
  return static_cast<double>(best);
}

std::size_t peak_concurrency(const std::vector<Outcome>& outcomes) {
  std::vector<std::pair<Clock::duration, int>> events;  // at equal times the end (-1) sorts before the start
  for (const Outcome& outcome : outcomes) {
    if (outcome.warm_up) continue;
    events.emplace_back(outcome.sent_at, 1);
    events.emplace_back(outcome.sent_at + outcome.e2e, -1);
  }
  std::ranges::sort(events);
  std::int64_t now = 0, peak = 0;
  for (const auto& [at, change] : events) peak = std::max(peak, now += change);
  return static_cast<std::size_t>(peak);
}

OfferedLoad offered_load(const std::vector<Outcome>& outcomes, double warm_up_s) {
  OfferedLoad out;
  double last = warm_up_s, requests = 0, input = 0, output = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.warm_up) continue;
    last = std::max(last, seconds(outcome.sent_at - outcome.lateness));
    ++requests;
    input += outcome.input_tokens;
    output += std::max(outcome.asked_tokens, outcome.output_tokens);
  }
  out.seconds = last - warm_up_s;
  if (out.seconds <= 0) return out;
  out.requests_per_s = requests / out.seconds;
  out.input_tokens_per_s = input / out.seconds;
  out.output_tokens_per_s = output / out.seconds;
  return out;
}

}  // namespace

std::size_t Report::met() const {
  std::size_t sum = 0;
  for (const ClassReport& c : classes) sum += c.met;
  return sum;
}

Report make_report(RunFacts facts, const std::vector<Outcome>& outcomes, WorkerReport workers) {
  Report report{.facts = std::move(facts), .workers = std::move(workers)};
  report.offered = offered_load(outcomes, report.facts.warm_up_s);
  for (const SloTarget& slo : report.facts.slos) report.classes.push_back({.slo = slo});
  std::vector<double> ttft, tpot, itl, e2e, lateness;
  for (const Outcome& outcome : outcomes) {
    ++(outcome.warm_up ? report.warm_up_requests : report.requests);
    if (outcome.warm_up) continue;
    judge(report.classes[outcome.slo], outcome);
    lateness.push_back(milliseconds(outcome.lateness));
    if (!outcome.completed()) {
      ++report.failures[outcome.failure];
      report.first_detail.try_emplace(outcome.failure, outcome.detail);
      continue;
    }
    ++report.completed;
    report.input_tokens += outcome.input_tokens;
    report.output_tokens += outcome.output_tokens;
    ttft.push_back(milliseconds(outcome.ttft));
    e2e.push_back(milliseconds(outcome.e2e));
    if (outcome.has_tpot()) tpot.push_back(milliseconds(outcome.tpot()));
    for (const Clock::duration gap : outcome.itl) itl.push_back(milliseconds(gap));
  }
  report.ttft_ms = summarize(std::move(ttft));
  report.tpot_ms = summarize(std::move(tpot));
  report.itl_ms = summarize(std::move(itl));
  report.e2e_ms = summarize(std::move(e2e));
  report.lateness_ms = summarize(std::move(lateness));
  report.peak_output_tokens_per_s = peak_rate(outcomes);
  report.peak_concurrency = peak_concurrency(outcomes);
  return report;
}

}  // namespace lynx
