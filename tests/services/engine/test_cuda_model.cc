// The shipped model on a GPU against the CPU reference, and what a decode step promises there: padding does
// not show, a graph does what its operations do, handed-over KV arrives. Skipped where no GPU is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/device_budget.h"
#include "services/engine/counter_rng.h"
#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"
#include "services/engine/sampler.h"
#include "tests/services/engine/golden_data.h"
#include "tests/support/paths.h"

namespace lynx::testing {
namespace {

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kTokens = 192;  // that a sequence has room for

std::vector<std::vector<TokenId>> prompts(std::size_t count) {
  std::vector<std::vector<TokenId>> out;
  const auto golden = read_golden(source_path("tests/golden/shipped/golden.safetensors"));
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<TokenId>& tokens = golden[i % golden.size()].tokens;
    const std::size_t length = std::min<std::size_t>(tokens.size(), 20 + 7 * i);
    out.emplace_back(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
    out.back().front() = static_cast<TokenId>(100 + i);  // no two are equal
  }
  return out;
}

// Sequences in a cache of their own, run through a model by hand.
class Sequences {
 public:
  Sequences(Model& model, std::size_t count, KvDtype dtype = KvDtype::kBf16)
      : model_(model),
        cache_(page_layout(model.config(), static_cast<std::uint32_t>(count) * each(), kBlockTokens, dtype)) {
    for (std::size_t s = 0; s < count; ++s) {
      blocks_.emplace_back(each());
      std::iota(blocks_.back().begin(), blocks_.back().end(), static_cast<BlockId>(s * each()));
    }
    cached_.resize(count);
  }
  static std::uint32_t each() { return kTokens / kBlockTokens; }

  // Appends tokens of one sequence in chunks; the logits of every row.
  std::vector<float> prefill(std::size_t s, std::span<const TokenId> tokens, std::size_t chunk,
                             LayerObserver* observer = nullptr) {
    std::vector<float> logits;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
      const SequenceRows rows{0, static_cast<std::uint32_t>(part.size()), cached_[s], blocks_[s]};
      std::vector<std::uint32_t> all(part.size());
      std::iota(all.begin(), all.end(), 0);
      StepBatch batch;
      batch.tokens = part;
      batch.sequences = {&rows, 1};
      batch.logit_rows = all;
      model_.forward(batch, cache_, result, observer);
      cached_[s] += rows.rows;
      logits.insert(logits.end(), result.logits.begin(), result.logits.end());
    }
    return logits;
  }

  // One decode step of some sequences; keeps what it did in `result`. again: the KV is not counted as there.
  void decode(const std::vector<std::size_t>& which, const std::vector<TokenId>& tokens, PolicyKind policy,
              std::span<const RowSampling> sampling = {}, bool again = false,
              std::span<const std::uint8_t> exact = {}) {
    std::vector<SequenceRows> rows;
    std::vector<std::uint32_t> all;
    for (const std::size_t s : which) {
      all.push_back(static_cast<std::uint32_t>(rows.size()));
      rows.push_back({static_cast<std::uint32_t>(rows.size()), 1, cached_[s], blocks_[s]});
    }
    StepBatch batch;
    batch.tokens = tokens;
    batch.sequences = rows;
    batch.logit_rows = all;
    batch.exact_rows = exact;
    batch.policy.kind = policy;
    batch.sampling = sampling;
    batch.decode = true;
    model_.forward(batch, cache_, result, nullptr);
    if (again) return;
    for (const std::size_t s : which) ++cached_[s];
  }

  void take_over(std::size_t s, std::uint32_t tokens) { cached_[s] = tokens; }
  KvCache& cache() { return cache_; }
  std::span<const BlockId> blocks(std::size_t s) const { return blocks_[s]; }

  StepResult result;

 private:
  Model& model_;
  KvCache cache_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<std::uint32_t> cached_;
};

class CudaModel : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      ASSERT_TRUE(device_space("cuda").has_value());
    } catch (const std::exception& e) {
      GTEST_SKIP() << e.what();
    }
  }
  static std::unique_ptr<Model> load(const std::string& device, bool repeat_steps = true) {
    ModelOptions options;
    options.backend.device = device;
    options.backend.threads = 2;
    options.backend.repeat_steps = repeat_steps;
    options.max_rows = options.max_logit_rows = 64;
    return load_model(source_path("deploy/model"), options);
  }
};

double relative_error(const float* got, const float* want, std::size_t n) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    difference += std::pow(double{got[i]} - want[i], 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> row(const StepResult& result, std::size_t r, std::size_t vocab) {
  const auto begin = result.logits.begin() + static_cast<std::ptrdiff_t>(r * vocab);
  return {begin, begin + static_cast<std::ptrdiff_t>(vocab)};
}

std::vector<TokenId> some_tokens(std::size_t count, TokenId first) {
  std::vector<TokenId> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = first + static_cast<TokenId>(i * 37);
  return out;
}

// Rounding to bf16 between layers moves a row by a few parts in a thousand, and now and then takes an expert
// with nearly equal logits for another: hence the median, and a wide bound for the worst row.
TEST_F(CudaModel, LogitsAreThoseOfTheCpu) {
  const auto cpu = load("cpu");
  const auto gpu = load("cuda");
  const std::size_t vocab = cpu->config().vocab;
  for (const KvDtype dtype : {KvDtype::kBf16, KvDtype::kF32}) {
    std::vector<double> errors;
    std::size_t same_choice = 0;
    const auto texts = prompts(6);
    for (const auto& text : texts) {
      Sequences on_cpu(*cpu, 1, dtype);
      Sequences on_gpu(*gpu, 1, dtype);
      const auto want = on_cpu.prefill(0, text, 64);
      const auto got = on_gpu.prefill(0, text, 64);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t r = 0; r < text.size(); ++r) {
        const float* g = got.data() + r * vocab;
        const float* w = want.data() + r * vocab;
        errors.push_back(relative_error(g, w, vocab));
        same_choice += std::max_element(g, g + vocab) - g == std::max_element(w, w + vocab) - w ? 1 : 0;
      }
    }
    std::sort(errors.begin(), errors.end());
    EXPECT_LE(errors[errors.size() / 2], 0.02);
    EXPECT_LE(errors.back(), 0.3);
    EXPECT_GE(static_cast<double>(same_choice) / static_cast<double>(errors.size()), 0.95);
  }
}

TEST_F(CudaModel, AChunkDoesNotShowInItsRows) {
  const auto model = load("cuda");
  const auto text = prompts(3)[2];
  Sequences whole(*model, 1);
  Sequences cut(*model, 1);
  EXPECT_TRUE(same_bits(whole.prefill(0, text, 64), cut.prefill(0, text, 9)));
}

// Field report 12: a batch of 5 in a bucket of 8 is a batch of 5, in output and in experts.
TEST_F(CudaModel, PaddingNeitherRoutesNorShows) {
  const auto repeated = load("cuda");
  const auto eager = load("cuda", false);  // unpadded, operation by operation
  const auto texts = prompts(5);
  const std::vector<std::size_t> all{0, 1, 2, 3, 4};
  Sequences padded(*repeated, 5);
  Sequences plain(*eager, 5);
  for (std::size_t s = 0; s < 5; ++s) {
    padded.prefill(s, texts[s], 64);
    plain.prefill(s, texts[s], 64);
  }
  for (const PolicyKind policy : {PolicyKind::kOff, PolicyKind::kLynx, PolicyKind::kShare}) {
    for (int step = 0; step < 3; ++step) {  // the first captures, the others repeat
      const auto tokens = some_tokens(5, static_cast<TokenId>(200 + step));
      padded.decode(all, tokens, policy);
      plain.decode(all, tokens, policy);
      EXPECT_TRUE(same_bits(padded.result.logits, plain.result.logits)) << to_string(policy) << step;
      EXPECT_EQ(padded.result.computed_rows, 8U);
      EXPECT_EQ(plain.result.computed_rows, 5U);
      ASSERT_EQ(padded.result.layers.size(), plain.result.layers.size());
      for (std::size_t layer = 0; layer < plain.result.layers.size(); ++layer) {
        const PlanStats& a = padded.result.layers[layer];
        const PlanStats& b = plain.result.layers[layer];
        EXPECT_EQ(a.routed_experts, b.routed_experts);
        EXPECT_EQ(a.activated_experts, b.activated_experts);
        EXPECT_EQ(a.assignments, 5 * repeated->config().router.top_k);
        EXPECT_EQ(a.assignments, b.assignments);
        EXPECT_EQ(a.remapped, b.remapped);
        EXPECT_EQ(a.retained_mass_sum, b.retained_mass_sum);
        ExpertPlan plan;
        repeated->read_plan(static_cast<std::uint32_t>(layer), plan);
        EXPECT_EQ(plan.rows, 5U);
        EXPECT_EQ(plan.active.size(), a.activated_experts);
      }
    }
  }
}

TEST_F(CudaModel, ARowIsTheSameInEveryBucket) {
  const auto model = load("cuda");
  const std::size_t vocab = model->config().vocab;
  const auto texts = prompts(40);
  Sequences sequences(*model, 40);
  for (std::size_t s = 0; s < 40; ++s) sequences.prefill(s, texts[s], 64);
  const auto tokens = some_tokens(40, 300);
  sequences.decode({7}, {tokens[7]}, PolicyKind::kOff, {}, true);
  const auto alone = row(sequences.result, 0, vocab);
  for (const std::size_t batch : {9U, 17U, 33U, 40U}) {
    std::vector<std::size_t> which(batch);
    std::iota(which.begin(), which.end(), 0);
    sequences.decode(which, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(batch)},
                     PolicyKind::kOff, {}, true);
    EXPECT_TRUE(same_bits(row(sequences.result, 7, vocab), alone)) << "in a batch of " << batch;
  }
}

TEST_F(CudaModel, ExactRowsKeepTheirExperts) {
  const auto model = load("cuda");
  const std::size_t vocab = model->config().vocab;
  const auto texts = prompts(12);
  std::vector<std::size_t> all(12);
  std::iota(all.begin(), all.end(), 0);
  Sequences sequences(*model, 12);
  for (const std::size_t s : all) sequences.prefill(s, texts[s], 64);
  const auto tokens = some_tokens(12, 300);
  sequences.decode(all, tokens, PolicyKind::kOff, {}, true);
  const auto off = row(sequences.result, 3, vocab);
  std::vector<std::uint8_t> exact(12);
  exact[3] = 1;
  sequences.decode(all, tokens, PolicyKind::kLynx, {}, true, exact);
  EXPECT_TRUE(same_bits(row(sequences.result, 3, vocab), off));
}

// What the device samples is what the host sampler makes of the same logits.
TEST_F(CudaModel, SamplesAsTheHostDoes) {
  const auto model = load("cuda");
  const std::size_t vocab = model->config().vocab;
  const auto texts = prompts(8);
  std::vector<std::size_t> all(8);
  std::iota(all.begin(), all.end(), 0);
  Sequences sequences(*model, 8);
  for (const std::size_t s : all) sequences.prefill(s, texts[s], 64);
  std::vector<SamplingParams> params(8);
  params[0].temperature = 0;
  params[1].temperature = 0.7F;
  params[2].top_k = 20;
  params[3].top_p = 0.9F;
  params[4].min_p = 0.05F;
  params[5].top_k = 5;
  params[5].top_p = 0.5F;
  params[6].temperature = 2.5F;
  Sampler host;
  std::size_t different = 0;
  constexpr int kDraws = 40;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto tokens = some_tokens(8, static_cast<TokenId>(300 + draw));
    std::vector<RowSampling> records(8);
    for (std::size_t r = 0; r < 8; ++r) {
      params[r].seed = static_cast<std::uint64_t>(draw);
      records[r] = {true,
                    params[r].temperature,
                    params[r].top_k,
                    params[r].top_p,
                    params[r].min_p,
                    uniform_at(params[r].seed, 5)};
    }
    records[7].on_device = false;
    sequences.decode(all, tokens, PolicyKind::kOff, {}, true);
    const StepResult plain = sequences.result;
    sequences.decode(all, tokens, PolicyKind::kOff, records, true);
    const StepResult& sampled = sequences.result;
    ASSERT_EQ(sampled.samples.size(), 8U);
    EXPECT_EQ(sampled.samples[7].state, RowSample::State::kLogits);
    EXPECT_TRUE(same_bits(sampled.logits, row(plain, 7, vocab)));
    const std::vector<TokenId> before(5, 1);
    for (std::size_t r = 0; r < 7; ++r) {
      ASSERT_EQ(sampled.samples[r].state, RowSample::State::kToken);
      const auto want = host.sample(row(plain, r, vocab), params[r], {before, 5, {}});
      ASSERT_TRUE(want.ok());
      different += want->token == sampled.samples[r].token ? 0 : 1;
    }
  }
  // Masses differ in the last bits, so a draw on the border of two tokens may fall to the other one.
  EXPECT_LE(different, 2U) << "of " << 7 * kDraws;
}

// A prompt computed by one model and decoded by another, with nothing but the host pool between them.
TEST_F(CudaModel, HandedOverKvIsTheSenders) {
  struct Layers final : LayerObserver {
    void layer_done(std::uint32_t layer) override { seen.push_back(layer); }
    std::vector<std::uint32_t> seen;
  };
  const auto sender = load("cuda");
  const auto receiver = load("cuda");
  const auto text = prompts(3)[2];
  Sequences from(*sender, 1);
  Layers layers;
  from.prefill(0, text, 64, &layers);
  std::vector<std::uint32_t> in_order(sender->config().layers);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(layers.seen, in_order);
  Sequences to(*receiver, 1);
  receiver->attach(to.cache());
  std::copy(from.cache().bytes().begin(), from.cache().bytes().end(), to.cache().bytes().begin());
  const std::uint32_t blocks = to.cache().layout().blocks_for(static_cast<std::uint32_t>(text.size()));
  receiver->import_kv(to.cache(), to.blocks(0).first(blocks));
  to.take_over(0, static_cast<std::uint32_t>(text.size()));
  for (TokenId token = 400; token < 420; ++token) {
    from.decode({0}, {token}, PolicyKind::kOff);
    to.decode({0}, {token}, PolicyKind::kOff);
    ASSERT_TRUE(same_bits(from.result.logits, to.result.logits));
  }
}

TEST_F(CudaModel, TakesWhatTheBudgetSays) {
  const auto model = load("cuda");
  const ModelConfig& config = model->config();
  KvCache cache(page_layout(config, 100, kBlockTokens, KvDtype::kBf16));
  model->attach(cache);
  const DeviceBudget budget = device_budget({.layers = config.layers,
                                             .hidden = config.hidden,
                                             .intermediate = config.moe_intermediate,
                                             .router = config.router,
                                             .limits = step_limits(config, 64, 64),
                                             .block_tokens = kBlockTokens});
  EXPECT_EQ(model->traits().device_bytes,
            budget.weights + budget.activations + budget.workspace + cache.layout().pool_bytes());
}

}  // namespace
}  // namespace lynx::testing
