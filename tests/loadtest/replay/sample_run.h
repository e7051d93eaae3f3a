// Outcomes and runs made up for tests of what is drawn and written from them.
#pragma once

#include <cmath>

#include "loadtest/replay/mix_bits.h"
#include "loadtest/replay/run_view.h"

namespace lynx::testing {

inline Clock::duration ms(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(value));
}

inline Outcome answered(double sent_ms, double ttft_ms, const std::vector<double>& itl_ms,
                        std::size_t slo = 0) {
  Outcome o;
  o.slo = slo;
  o.sent_at = ms(sent_ms);
  o.input_tokens = 100;
  o.output_tokens = o.asked_tokens = static_cast<std::uint32_t>(itl_ms.size() + 1);
  o.ttft = o.e2e = ms(ttft_ms);
  for (const double gap : itl_ms) {
    o.itl.push_back(ms(gap));
    o.e2e += ms(gap);
  }
  return o;
}

inline Outcome refused(double sent_ms, const std::string& cause, const std::string& detail) {
  Outcome o;
  o.sent_at = ms(sent_ms);
  o.e2e = ms(1);
  o.asked_tokens = 5;
  o.failure = cause;
  o.detail = detail;
  return o;
}

inline std::vector<SloTarget> one_class() {
  return {{.name = "interactive",
           .share = 1,
           .ttft = std::chrono::milliseconds(500),
           .tpot = std::chrono::milliseconds(50)}};
}

// n requests, 50 ms apart, whose latencies are noise around `scale` times a base that swings over the run:
// the same seed gives the same workload, another `noise` another run of it.
inline RunView sample_run(const std::string& name, std::size_t n, double scale, std::uint64_t noise) {
  RunView run{.name = name, .report = {}, .outcomes = {}, .timeline = {}, .fleet = {}, .workers = {}};
  for (std::size_t i = 0; i < n; ++i) {
    const double swing = 1 + 0.5 * unit_interval(mix_bits(1, i / 20));
    const auto jitter = [&](std::uint64_t k) {
      return 0.9 + 0.2 * unit_interval(mix_bits(noise, i * 16 + k));
    };
    std::vector<double> itl;
    for (std::uint64_t k = 0; k < 10; ++k) itl.push_back(20 * scale * swing * jitter(k));
    run.outcomes.push_back(answered(50.0 * static_cast<double>(i), 200 * swing * jitter(11), itl));
  }
  RunFacts facts;
  facts.date = "2026-01-01T00:00:00Z";
  facts.model = "m";
  facts.target = "127.0.0.1:8000";
  facts.trace_name = "made-up.csv";
  facts.trace_format = "azure";
  facts.slos = one_class();
  facts.duration_s = 0.05 * static_cast<double>(n) + 1;
  run.timeline = make_timeline(run.outcomes, facts.slos, facts.duration_s);
  run.report = make_report(facts, run.outcomes, {});
  return run;
}

// One sample a second of a fleet whose layer-steps route to `routed` experts, give or take a tenth, and
// activate half as many. How many steps a second has swings over the run, and is the same for each `noise`.
inline FleetCurves sample_fleet(std::size_t n, double routed, std::uint64_t noise) {
  FleetCurves out;
  for (std::size_t i = 0; i < n; ++i) {
    const double swing = unit_interval(mix_bits(3, i / 5));
    const double here = routed * (0.6 + 0.8 * swing) * (0.9 + 0.2 * unit_interval(mix_bits(noise, i)));
    out.at_s.push_back(static_cast<double>(i + 1));
    out.routed.push_back(here);
    out.activated.push_back(here / 2);
    out.layer_steps.push_back(std::round(700 * (0.5 + swing)));
    out.batch.push_back(8);
    out.kv_bytes_per_s.push_back(0);
    out.kv_ms.push_back(1);
  }
  return out;
}

}  // namespace lynx::testing
