#include "loadtest/bench/model_bench.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include "kernels/bench/recorded_logits.h"
#include "loadtest/capacity/model_shape.h"

namespace lynx {
namespace {

constexpr std::uint32_t kReplayedLayers = 24;

// Neighbours in a recording are pieces of one document: so a batch, and the first rows of one, takes
// sequences far apart.
ReplayedLogits recorded_batches(const RecordedLogits& recorded, std::uint32_t rows) {
  constexpr std::size_t kStride = 77;  // shares no factor with the number of sequences of a recording
  constexpr std::uint32_t kLargestBatch = 64;
  ReplayedLogits replay{.layers = kReplayedLayers, .rows = std::max(rows, kLargestBatch), .values = {}};
  for (std::size_t layer = 0; layer < kReplayedLayers; ++layer) {
    for (std::size_t r = 0; r < replay.rows; ++r) {
      const std::size_t pass = layer / recorded.layers;
      const auto row = recorded.row(layer % recorded.layers, (r * kStride + pass) % recorded.sequences,
                                    pass * 7 % recorded.positions);
      replay.values.insert(replay.values.end(), row.begin(), row.end());
    }
  }
  return replay;
}

std::string gigabytes(double bytes) { return std::to_string(std::lround(bytes / 1e9)) + " GB"; }

// Where the kernel would end a process that takes too much, a sentence is better.
void check_host_memory(ModelShape shape) {
  shape.shared_width = 0;
  const double weights = shape.weight_bytes();
  const double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(getpagesize());
  if (weights > machine)
    throw std::runtime_error("--model: the weights of " + shape.name + " take " + gigabytes(weights) +
                             ", and this machine has " + gigabytes(machine));
}

std::unique_ptr<Model> random_model(const ModelShape& shape, const ModelOptions& options) {
  const Result<ModelConfig> config = runnable_config(shape);
  if (!config) throw std::runtime_error("--model: " + config.error().message);
  std::unique_ptr<Backend> backend = make_backend(options.backend);
  if (!device_space(options.backend.device)) check_host_memory(shape);
  DummyTensors weights(options.dummy_seed);
  return make_model(*config, weights, std::move(backend), options);
}

}  // namespace

void ModelFlags::add_to(CLI::App& app) {
  app.add_option(
         "--model", model,
         "Hugging Face folder, or a published model's name: random weights of its dimensions, without "
         "shared experts")
      ->capture_default_str();
  app.add_option("--load-format", load_format, "random weights with 'dummy'")
      ->check(CLI::IsMember({"safetensors", "dummy"}))
      ->capture_default_str();
  app.add_option("--kv-dtype", kv_dtype, "of the KV cache")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--router-logits", router_logits,
                 "route decode steps by this recording, .npz or .f16, of as many experts as the model has");
  app.add_option("--device", device, "what computes")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", threads, "compute threads")->check(CLI::Range(1, 1024))->capture_default_str();
}

std::unique_ptr<Model> ModelFlags::load(std::uint32_t rows, std::uint32_t logit_rows) const {
  ModelOptions options;
  options.backend.device = device;
  options.max_rows = rows;
  options.max_logit_rows = logit_rows;
  options.backend.threads = threads;
  options.load_format = load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kSafetensors;
  if (!router_logits.empty())
    options.replay = recorded_batches(read_recorded_logits(router_logits), logit_rows);
  if (const ModelShape* shape = published_shape(model)) return random_model(*shape, options);
  if (!std::filesystem::exists(std::filesystem::path(model) / "config.json"))
    throw std::runtime_error("--model: " + find_model_shape(model).error().message);
  return load_model(model, options);
}

BenchBatch::BenchBatch(Model& model, KvDtype kv, std::uint32_t sequences, std::uint32_t max_tokens)
    : model_(model), cache_([&] {
        constexpr std::uint32_t kBlockTokens = 16;
        PageLayout layout = page_layout(model.config(), 0, kBlockTokens, kv);
        layout.blocks = layout.blocks_for(max_tokens) * sequences;
        return layout;
      }()) {
  const std::uint32_t each = cache_.layout().blocks / sequences;
  for (std::uint32_t s = 0; s < sequences; ++s) {
    blocks_.emplace_back(each);
    std::iota(blocks_.back().begin(), blocks_.back().end(), s * each);
  }
  next_.resize(sequences);
}

double BenchBatch::forward(const StepBatch& batch) {
  const auto since = [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  model_.launch(batch, cache_, nullptr);
  launch_seconds_ = since();
  model_.collect(result_);
  return since();
}

double BenchBatch::prefill(std::uint32_t tokens, std::uint32_t chunk) {
  std::mt19937 random(1);
  double seconds = 0;
  for (std::size_t s = 0; s < blocks_.size(); ++s) {
    std::vector<TokenId> prompt(tokens);
    for (TokenId& token : prompt) token = random() % model_.config().vocab;
    for (std::uint32_t at = 0; at < tokens; at += chunk) {
      const std::uint32_t rows = std::min(chunk, tokens - at);
      const SequenceRows sequence{0, rows, context_ + at, blocks_[s]};
      const std::uint32_t last = rows - 1;
      const std::size_t logit_rows = at + rows == tokens ? 1 : 0;
      seconds += forward({{prompt.data() + at, rows}, {&sequence, 1}, {&last, logit_rows}, {}, {}});
    }
    next_[s] = static_cast<TokenId>(std::max_element(result_.logits.begin(), result_.logits.end()) -
                                    result_.logits.begin());
  }
  context_ += tokens;
  return seconds;
}

double BenchBatch::prefill_together(std::uint32_t tokens) {
  std::mt19937 random(1);
  std::vector<TokenId> prompts(tokens * blocks_.size());
  for (TokenId& token : prompts) token = random() % model_.config().vocab;
  std::vector<SequenceRows> sequences;
  std::vector<std::uint32_t> last;
  for (const std::vector<BlockId>& blocks : blocks_) {
    const auto first = static_cast<std::uint32_t>(sequences.size()) * tokens;
    sequences.push_back({first, tokens, context_, blocks});
    last.push_back(first + tokens - 1);
  }
  const double seconds = forward({prompts, sequences, last, {}, {}});
  const std::size_t vocab = model_.config().vocab;
  for (std::size_t s = 0; s < blocks_.size(); ++s) {
    const auto logits = result_.logits.begin() + static_cast<std::ptrdiff_t>(s * vocab);
    next_[s] =
        static_cast<TokenId>(std::max_element(logits, logits + static_cast<std::ptrdiff_t>(vocab)) - logits);
  }
  context_ += tokens;
  return seconds;
}

double BenchBatch::step(const RoutePolicy& policy) {
  std::vector<SequenceRows> sequences;
  std::vector<std::uint32_t> rows(next_.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (const std::uint32_t row : rows) sequences.push_back({row, 1, context_, blocks_[row]});
  const std::vector<RowSampling> greedy(rows.size(), RowSampling{.on_device = true});
  const double seconds = forward({next_, sequences, rows, {}, policy, greedy, true});
  ++context_;
  const std::size_t vocab = model_.config().vocab;
  const float* logits = result_.logits.data();
  for (const std::uint32_t row : rows) {
    next_[row] = result_.samples[row].token;
    if (result_.samples[row].state != RowSample::State::kLogits) continue;
    next_[row] = static_cast<TokenId>(std::max_element(logits, logits + vocab) - logits);
    logits += vocab;
  }
  return seconds;
}

double BenchBatch::step_bytes() const {
  const ModelConfig& c = model_.config();
  const double q = double{1} * c.q_heads * c.head_dim;
  const double kv = double{1} * c.kv_heads * c.head_dim;
  const double dense = (c.hidden * (2 * q + 2 * kv) + double{1} * c.hidden * c.router.experts) * c.layers;
  double bytes = 2 * (dense + double{1} * c.vocab * c.hidden);
  for (const PlanStats& layer : result_.layers)
    bytes += double{1} * layer.activated_experts * c.expert_bytes();
  const double token_bytes = 2.0 * cache_.layout().token_bytes() * c.layers;
  return bytes + token_bytes * context_ * static_cast<double>(next_.size());
}

}  // namespace lynx
