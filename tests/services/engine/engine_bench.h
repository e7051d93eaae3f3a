// An EngineCore driven by hand for tests: collects its events.
#pragma once

#include <deque>
#include <memory>

#include "services/engine/engine_core.h"
#include "tests/services/engine/fake_model.h"

namespace lynx::testing {

class EngineBench {
 public:
  explicit EngineBench(const EngineConfig& config = {}, std::uint32_t blocks = 64,
                       FakeModelOptions options = {})
      : model(options),
        cache(FakeModel::layout(blocks, options)),
        metrics(registry),
        core(config, model, cache, clock, metrics,
             [this](EngineEvent event) { events.push_back(std::move(event)); }) {}

  // Blocks by hand: sequence i of a test takes its own range.
  Sequence sequence(SequenceId id, std::vector<TokenId> tokens, std::uint32_t max_tokens,
                    BlockId first_block = 0) {
    Sequence s;
    s.id = id;
    s.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
    s.tokens = std::move(tokens);
    s.sampling.temperature = 0;
    s.sampling.max_tokens = max_tokens;
    s.deadline = Clock::time_point::max();
    const std::uint32_t cached =
        max_cached_tokens(s.prompt_tokens, s.prompt_tokens, s.sampling, model.config().context);
    for (std::uint32_t b = 0; b < cache.layout().blocks_for(cached); ++b) s.blocks.push_back(first_block + b);
    return s;
  }

  // All StepDones until the engine is idle.
  std::vector<StepDone> run() {
    std::vector<StepDone> out;
    while (!core.idle()) {
      core.step();
      for (EngineEvent& event : events)
        if (auto* step = std::get_if<StepDone>(&event)) out.push_back(std::move(*step));
      events.clear();
    }
    return out;
  }

  ManualClock clock;
  FakeModel model;
  KvCache cache;
  MetricsRegistry registry;
  EngineMetrics metrics;
  std::deque<EngineEvent> events;
  EngineCore core;
};

inline std::vector<TokenId> tokens_of(const std::vector<StepDone>& steps, SequenceId id) {
  std::vector<TokenId> out;
  for (const StepDone& step : steps)
    for (const SequenceToken& token : step.tokens)
      if (token.sequence == id) out.push_back(token.token.token);
  return out;
}

inline std::vector<SequenceEnded> ends_of(const std::vector<StepDone>& steps, SequenceId id) {
  std::vector<SequenceEnded> out;
  for (const StepDone& step : steps)
    for (const SequenceEnded& end : step.ended)
      if (end.sequence == id) out.push_back(end);
  return out;
}

}  // namespace lynx::testing
