// The engine around the model: how long a device has nothing to do between two decode steps, because the host
// reads tokens, plans and lays out the next step and hands it over. Sending the tokens is not in it on a
// model that overlaps: that is done while the device works.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "loadtest/bench/model_bench.h"
#include "loadtest/bench/subcommands.h"
#include "services/engine/monolith.h"

namespace lynx {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::uint32_t kChunk = 512;

double microseconds(Time from, Time to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// A model that notes when its decode steps of a full batch are handed over and come back.
class ClockedModel final : public Model {
 public:
  ClockedModel(Model& model, std::size_t batch) : model_(model), batch_(batch) {}

  const ModelConfig& config() const override { return model_.config(); }
  std::uint64_t fingerprint() const override { return model_.fingerprint(); }
  ModelTraits traits() const override { return model_.traits(); }
  void attach(KvCache& cache) override { model_.attach(cache); }
  void import_kv(KvCache& cache, std::span<const BlockId> blocks) override {
    model_.import_kv(cache, blocks);
  }
  void read_plan(std::uint32_t layer, ExpertPlan& plan) override { model_.read_plan(layer, plan); }

  void launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) override {
    const bool follows = full_;
    full_ = batch.decode && batch.sequences.size() == batch_;
    const Time from = std::chrono::steady_clock::now();
    model_.launch(batch, cache, observer);
    const Time to = std::chrono::steady_clock::now();
    if (follows && full_) {
      gaps.push_back(microseconds(collected_, model_.traits().overlaps ? to : from));
      launches.push_back(microseconds(from, to));
      periods.push_back(microseconds(launched_, to));
    }
    launched_ = to;
  }
  void collect(StepResult& result) override {
    model_.collect(result);
    collected_ = std::chrono::steady_clock::now();
  }

  // One of each per step that follows another of a full batch, in microseconds.
  std::vector<double> gaps;      // from tokens there to the device at work again
  std::vector<double> launches;  // handing a step over
  std::vector<double> periods;   // from hand-over to hand-over

 private:
  Model& model_;
  const std::size_t batch_;
  bool full_ = false;  // the step handed over last
  Time launched_;
  Time collected_;
};

struct EngineFlags {
  ModelFlags model;
  std::vector<std::uint32_t> batches = {16};
  std::string policy = "lynx";
  std::uint32_t context = 128;
  std::uint32_t steps = 200;
};

double at(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

BenchRow measure(Model& model, const EngineFlags& flags, const RoutePolicy& policy, std::uint32_t batch) {
  PageLayout layout = page_layout(model.config(), 0, 16, flags.model.kv());
  layout.blocks = layout.blocks_for(flags.context + flags.steps + 1) * batch;
  KvCache cache(layout);
  std::mt19937 random(1);
  std::vector<MonolithRequest> requests(batch);
  for (MonolithRequest& request : requests) {
    for (std::uint32_t i = 0; i < flags.context; ++i)
      request.prompt.push_back(static_cast<TokenId>(random() % model.config().vocab));
    request.sampling.temperature = 0;
    request.sampling.max_tokens = flags.steps;
    request.sampling.ignore_eos = true;
  }
  ClockedModel clocked(model, batch);
  for (const MonolithOutput& output :
       run_monolith(clocked, cache, {{.max_batch = batch, .chunk_tokens = kChunk}, policy}, requests)) {
    if (!output.status) throw std::runtime_error(output.status.error().message);
  }
  if (clocked.gaps.empty()) throw std::runtime_error("--steps: no two steps of a full batch in a row");
  return {.name = "engine.host_gap.b" + std::to_string(batch),
          .unit = "us",
          .value = at(clocked.gaps, 0.5),
          .ceiling = 0,
          .ceiling_is = "",
          .target = "",
          .details = {{"p90_us", at(clocked.gaps, 0.9)},
                      {"launch_us", at(clocked.launches, 0.5)},
                      {"step_us", at(clocked.periods, 0.5)},
                      {"steps", static_cast<double>(clocked.gaps.size())}}};
}

std::vector<BenchRow> run(const EngineFlags& flags) {
  const auto kind = parse_policy_kind(flags.policy);
  if (!kind) throw std::runtime_error("--policy: " + kind.error().message);
  RoutePolicy policy;
  policy.kind = *kind;
  const std::uint32_t largest = *std::max_element(flags.batches.begin(), flags.batches.end());
  const auto model = flags.model.load(std::max(largest, kChunk), largest);
  std::vector<BenchRow> rows;
  for (const std::uint32_t batch : flags.batches) rows.push_back(measure(*model, flags, policy, batch));
  return rows;
}

}  // namespace

Subcommand add_engine(CLI::App& app) {
  const auto flags = std::make_shared<EngineFlags>();
  CLI::App* parser =
      app.add_subcommand("engine", "how long a device waits for the host between decode steps");
  flags->model.add_to(*parser);
  parser->add_option("--batch", flags->batches, "batch sizes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  parser->add_option("--policy", flags->policy, "routing policy")->capture_default_str();
  parser->add_option("--context", flags->context, "tokens of a prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  parser->add_option("--steps", flags->steps, "tokens that each sequence generates")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  return {parser, [flags] { return run(*flags); }};
}

}  // namespace lynx
