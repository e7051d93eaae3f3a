#include "services/engine/monolith.h"

#include <unordered_map>
#include <utility>

#include "common/core/check.h"
#include "common/kv/kv_ledger.h"

namespace lynx {
namespace {

class Monolith {
 public:
  Monolith(Model& model, KvCache& cache, const MonolithConfig& config,
           std::span<const MonolithRequest> requests)
      : model_(model),
        layout_(cache.layout()),
        requests_(requests),
        outputs_(requests.size()),
        ledger_(layout_.blocks, 0),
        metrics_(registry_),
        core_({config.limits, config.policy, false}, model, cache, clock_, metrics_,
              [this](EngineEvent event) { take(std::move(event)); }) {}

  std::vector<MonolithOutput> run() {
    std::size_t next = 0;
    while (next < requests_.size() || !core_.idle()) {
      while (next < requests_.size() && admit(next)) ++next;
      core_.step();
    }
    return std::move(outputs_);
  }

 private:
  // False: no room now.
  bool admit(std::size_t index) {
    const MonolithRequest& request = requests_[index];
    outputs_[index].status = check_request(request.prompt, 0, request.sampling, model_.config());
    if (!outputs_[index].status) return true;
    const auto length = static_cast<std::uint32_t>(request.prompt.size());
    const std::uint32_t cached = max_cached_tokens(length, length, request.sampling, model_.config().context);
    const Result<LeaseTicket> lease = ledger_.allocate(index, layout_.blocks_for(cached));
    if (!lease) {
      if (lease.error().code == ErrorCode::kBusy) return false;
      outputs_[index].status = lease.error();
      return true;
    }
    Sequence sequence;
    sequence.id = lease->id;
    sequence.tokens = request.prompt;
    sequence.prompt_tokens = length;
    const auto view = ledger_.find(lease->id);
    LYNX_CHECK(view.has_value(), "a lease just granted is there");
    sequence.blocks.assign(view->blocks.begin(), view->blocks.end());
    sequence.sampling = request.sampling;
    sequence.deadline = Clock::time_point::max();
    running_.emplace(lease->id, index);
    core_.apply(AdmitSequence{std::move(sequence)});
    return true;
  }

  void take(EngineEvent event) {
    auto* step = std::get_if<StepDone>(&event);
    if (step == nullptr) return;
    for (SequenceToken& token : step->tokens)
      outputs_[running_.at(token.sequence)].tokens.push_back(std::move(token.token));
    for (SequenceEnded& end : step->ended) {
      outputs_[running_.at(end.sequence)].status = std::move(end.why);
      running_.erase(end.sequence);
      ledger_.release(end.sequence);
    }
  }

  Model& model_;
  const PageLayout layout_;
  std::span<const MonolithRequest> requests_;
  std::vector<MonolithOutput> outputs_;
  KvLedger ledger_;
  std::unordered_map<SequenceId, std::size_t> running_;  // by lease
  SteadyClock clock_;
  MetricsRegistry registry_;
  EngineMetrics metrics_;
  EngineCore core_;
};

}  // namespace

std::vector<MonolithOutput> run_monolith(Model& model, KvCache& cache, const MonolithConfig& config,
                                         std::span<const MonolithRequest> requests) {
  return Monolith(model, cache, config, requests).run();
}

}  // namespace lynx
