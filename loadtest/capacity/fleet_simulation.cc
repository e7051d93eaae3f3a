#include "loadtest/capacity/fleet_simulation.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>

namespace lynx {
namespace {

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

struct Sequence {
  std::size_t request = 0;
  double first_token_at = 0;
  std::uint32_t context = 0;  // tokens in the cache when it joins: the prompt
  std::uint32_t left = 0;     // tokens to generate after the first
  std::uint64_t held = 0;     // of the pool
};

// One decode worker. All running sequences gain a token per step, so each is known by the step it ends with.
class DecodeWorker {
 public:
  DecodeWorker(const WorkerCost& cost, SimulatedRun& run) : cost_(cost), run_(run) {}

  std::size_t load() const { return running_.size() + waiting_.size(); }
  void add(const Sequence& sequence) { waiting_.push_back(sequence); }

  // Makes every step that begins before `until`.
  void advance(double until) {
    now_ = std::max(now_, idle() ? until : now_);
    while (now_ < until) {
      admit();
      if (running_.empty()) return void(now_ = until);
      step();
    }
  }
  void finish() {
    while (!idle()) {
      admit();
      step();
    }
  }

  double busy = 0, steps = 0, rows = 0, unique = 0;

 private:
  bool idle() const { return load() == 0; }

  void admit() {
    const auto& c = cost_.coefficients();
    while (!waiting_.empty() && running_.size() < c.max_batch &&
           held_ + waiting_.front().held <= c.kv_tokens) {
      const Sequence sequence = waiting_.front();
      waiting_.pop_front();
      held_ += sequence.held;
      context_ += sequence.context;
      running_.push({step_ + sequence.left, sequence});
    }
  }

  void step() {
    const auto batch = static_cast<double>(running_.size());
    const double took = cost_.step_seconds(batch, static_cast<double>(context_));
    now_ += took;
    busy += took;
    ++step_;
    ++steps;
    rows += batch;
    unique += cost_.experts().at(batch);
    context_ += running_.size();
    while (!running_.empty() && running_.top().first == step_) {
      const Sequence& done = running_.top().second;
      run_.requests[done.request].tpot_s = (now_ - done.first_token_at) / done.left;
      held_ -= done.held;
      context_ -= done.context + done.left;
      running_.pop();
    }
  }

  using Ending = std::pair<std::uint64_t, Sequence>;  // the step it ends with
  struct Later {
    bool operator()(const Ending& a, const Ending& b) const { return a.first > b.first; }
  };

  const WorkerCost& cost_;
  SimulatedRun& run_;
  std::deque<Sequence> waiting_;
  std::priority_queue<Ending, std::vector<Ending>, Later> running_;
  double now_ = 0;
  std::uint64_t step_ = 0, held_ = 0, context_ = 0;
};

struct Joining {
  double at = 0;
  Sequence sequence;
};

// First come first served over the prefill workers; returns what then joins decode, by time.
std::vector<Joining> prefill(const std::vector<PlannedRequest>& requests, const WorkerCost& cost,
                             std::uint32_t workers, SimulatedRun& run) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::uint32_t i = 0; i < workers; ++i) free_at.push(0);
  std::vector<Joining> out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const PlannedRequest& request = requests[i];
    SimulatedRequest& result = run.requests[i];
    const std::uint64_t held = std::uint64_t{request.input_tokens} + request.output_tokens;
    result.served = held <= cost.coefficients().kv_tokens;
    if (!result.served) continue;
    const double came = seconds_of(request.at);
    const double start = std::max(came, free_at.top());
    result.prefill_s = cost.prefill_seconds(request.input_tokens);
    free_at.pop();
    free_at.push(start + result.prefill_s);
    run.prefill_busy += result.prefill_s;
    const double first = start + result.prefill_s;
    result.ttft_s = first - came;
    if (request.output_tokens > 1)
      out.push_back({first + cost.hand_over_seconds(request.input_tokens),
                     {i, first, request.input_tokens, request.output_tokens - 1, held}});
  }
  std::ranges::stable_sort(out, {}, &Joining::at);
  return out;
}

}  // namespace

SimulatedRun simulate(const std::vector<PlannedRequest>& requests, const WorkerCost& cost, FleetSize fleet) {
  SimulatedRun run;
  run.requests.resize(requests.size());
  const std::vector<Joining> joining = prefill(requests, cost, fleet.prefill, run);
  if (fleet.decode == 0) return run;
  std::vector<DecodeWorker> workers(fleet.decode, DecodeWorker(cost, run));
  for (const Joining& next : joining) {
    for (DecodeWorker& worker : workers) worker.advance(next.at);
    std::ranges::min_element(workers, {}, &DecodeWorker::load)->add(next.sequence);
  }
  double steps = 0, rows = 0, unique = 0;
  for (DecodeWorker& worker : workers) {
    worker.finish();
    run.decode_busy += worker.busy;
    steps += worker.steps;
    rows += worker.rows;
    unique += worker.unique;
  }
  const double span = requests.empty() ? 0 : seconds_of(requests.back().at);
  if (span > 0) {
    run.prefill_busy /= span * fleet.prefill;
    run.decode_busy /= span * fleet.decode;
  }
  if (steps > 0) {
    run.mean_batch = rows / steps;
    run.mean_unique = unique / steps;
  }
  return run;
}

}  // namespace lynx
