#include <gtest/gtest.h>

#include <random>

#include "loadtest/capacity/fleet_simulation.h"
#include "tests/loadtest/capacity/simple_fleet.h"

namespace lynx {
namespace {

using testing::every;
using testing::flat_cost;

TEST(FleetSimulation, PrefillIsFirstComeFirstServed) {
  // A prompt takes 1 s, one comes every 0.5 s: one worker falls behind by 0.5 s each time, two keep up.
  const auto requests = every(0.5, 4, 10, 1);
  const auto one = simulate(requests, flat_cost(1, 0.01, 4), {.prefill = 1, .decode = 1});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(one.requests[i].ttft_s, 1 + 0.5 * static_cast<double>(i));
  EXPECT_DOUBLE_EQ(one.prefill_busy, 4 / 1.5);
  const auto two = simulate(requests, flat_cost(1, 0.01, 4), {.prefill = 2, .decode = 1});
  for (const auto& r : two.requests) EXPECT_DOUBLE_EQ(r.ttft_s, 1);
  EXPECT_EQ(one.requests[0].tpot_s, 0) << "one token only";
}

TEST(FleetSimulation, ABatchThatIsFullMakesTheNextWait) {
  // Batch of 2, steps of 0.1 s, 10 steps each: the third of three that come together waits a whole second.
  auto requests = every(0, 3, 10, 11);
  const auto run = simulate(requests, flat_cost(0, 0.1, 2), {.prefill = 3, .decode = 1});
  EXPECT_NEAR(run.requests[0].tpot_s, 0.1, 1e-9);
  EXPECT_NEAR(run.requests[1].tpot_s, 0.1, 1e-9);
  EXPECT_NEAR(run.requests[2].tpot_s, 0.2, 1e-9) << "2 s over 10 tokens";
  EXPECT_NEAR(run.mean_batch, 1.5, 1e-9);
  const auto wider = simulate(requests, flat_cost(0, 0.1, 2), {.prefill = 3, .decode = 2});
  for (const auto& r : wider.requests) EXPECT_NEAR(r.tpot_s, 0.1, 1e-9);
}

TEST(FleetSimulation, ThePoolHoldsWholeSequences) {
  // 21 tokens each; a pool of 50 holds two of them whatever the batch allows.
  const auto run = simulate(every(0, 3, 10, 11), flat_cost(0, 0.1, 64, 50), {.prefill = 3, .decode = 1});
  EXPECT_NEAR(run.requests[2].tpot_s, 0.2, 1e-9);
  const auto small = simulate(every(0, 1, 10, 11), flat_cost(0, 0.1, 64, 20), {.prefill = 1, .decode = 1});
  EXPECT_FALSE(small.requests[0].served);
}

// The same fleet, simulated one token and one worker at a time without any bookkeeping.
std::vector<double> naive_tpot(const std::vector<PlannedRequest>& requests, const WorkerCost& cost) {
  struct Running {
    std::size_t request;
    double joined;
    std::uint32_t context, left;
  };
  std::vector<Running> waiting, running;
  for (std::size_t i = 0; i < requests.size(); ++i)
    waiting.push_back({i, std::chrono::duration<double>(requests[i].at).count(), requests[i].input_tokens,
                       requests[i].output_tokens - 1});
  std::vector<double> out(requests.size());
  const auto held = [&](const Running& r) {
    return requests[r.request].input_tokens + requests[r.request].output_tokens;
  };
  double now = 0;
  while (!waiting.empty() || !running.empty()) {
    if (running.empty()) now = std::max(now, waiting.front().joined);
    std::uint64_t pool = 0;
    for (const Running& r : running) pool += held(r);
    while (!waiting.empty() && waiting.front().joined <= now &&
           running.size() < cost.coefficients().max_batch &&
           pool + held(waiting.front()) <= cost.coefficients().kv_tokens) {
      pool += held(waiting.front());
      running.push_back(waiting.front());
      waiting.erase(waiting.begin());
    }
    double context = 0;
    for (const Running& r : running) context += r.context;
    now += cost.step_seconds(static_cast<double>(running.size()), context);
    for (Running& r : running) {
      ++r.context;
      if (--r.left == 0) out[r.request] = (now - r.joined) / (requests[r.request].output_tokens - 1);
    }
    std::erase_if(running, [](const Running& r) { return r.left == 0; });
  }
  return out;
}

TEST(FleetSimulation, AgreesWithASimulationTokenByToken) {
  std::mt19937_64 rng(3);
  std::vector<PlannedRequest> requests = every(0, 200, 1, 2);
  double at = 0;
  for (PlannedRequest& r : requests) {
    at += std::exponential_distribution<double>(20)(rng);
    r.at = std::chrono::nanoseconds(std::llround(at * 1e9));
    r.input_tokens = 1 + static_cast<std::uint32_t>(rng() % 500);
    r.output_tokens = 2 + static_cast<std::uint32_t>(rng() % 100);
  }
  WorkerCost::Coefficients c;
  c.fixed_s = 2e-3;
  c.per_expert_byte = 1e-12;
  c.per_kv_byte = 1e-9;
  c.expert_bytes = 1e8;
  c.kv_bytes = 1000;
  c.kv_tokens = 6000;
  c.max_batch = 12;
  const WorkerCost cost(c, UniqueExperts(known_model_shapes()[0], UniqueExperts::Policy::kLynx));
  // Prefill takes no time with as many workers as requests, so both join at their arrival.
  const auto run = simulate(requests, cost, {.prefill = 200, .decode = 1});
  const auto expected = naive_tpot(requests, cost);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_NEAR(run.requests[i].tpot_s, expected[i], 1e-9) << i;
}

}  // namespace
}  // namespace lynx
