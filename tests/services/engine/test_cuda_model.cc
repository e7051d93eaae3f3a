// The shipped model on a GPU against the CPU reference. Skipped where no GPU is.
#include <limits>

#include "kernels/device_budget.h"
#include "services/engine/counter_rng.h"
#include "services/engine/sampler.h"
#include "tests/services/engine/cuda_model.h"

namespace lynx::testing {
namespace {

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
    records[3].logits = true;  // as well as the token
    sequences.decode(all, tokens, PolicyKind::kOff, {}, true);
    const StepResult plain = sequences.result;
    sequences.decode(all, tokens, PolicyKind::kOff, records, true);
    const StepResult& sampled = sequences.result;
    ASSERT_EQ(sampled.samples.size(), 8U);
    EXPECT_EQ(sampled.samples[7].state, RowSample::State::kLogits);
    ASSERT_EQ(sampled.logits.size(), 2 * vocab);
    EXPECT_TRUE(same_bits(row(sampled, 0, vocab), row(plain, 3, vocab)));
    EXPECT_TRUE(same_bits(row(sampled, 1, vocab), row(plain, 7, vocab)));
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
  std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint32_t context : {kAnyContext, kTokens}) {
    const auto model = load("cuda", true, context);
    const ModelConfig& config = model->config();
    KvCache cache(page_layout(config, 100, kBlockTokens, KvDtype::kBf16));
    model->attach(cache);
    const DeviceBudget budget = device_budget({.layers = config.layers,
                                               .hidden = config.hidden,
                                               .intermediate = config.moe_intermediate,
                                               .context = config.context,
                                               .router = config.router,
                                               .limits = step_limits(config, 64, 64, context),
                                               .block_tokens = kBlockTokens});
    EXPECT_EQ(model->traits().device_bytes,
              budget.weights + budget.activations + budget.workspace + cache.layout().pool_bytes());
    EXPECT_LT(budget.workspace, before) << "a shorter context takes less";
    before = budget.workspace;
  }
}

// A sequence that outgrows what was promised: more room is made, and its rows are what they would have been.
TEST_F(CudaModel, ASequenceMayOutgrowItsPromise) {
  const auto promised = load("cuda", true, 64);
  const auto unlimited = load("cuda");
  const auto text = prompts(1)[0];
  Sequences grows(*promised, 1);
  Sequences same(*unlimited, 1);
  grows.prefill(0, text, 64);
  same.prefill(0, text, 64);
  for (TokenId token = 400; token < 400 + 70; ++token) {
    grows.decode({0}, {token}, PolicyKind::kOff);
    same.decode({0}, {token}, PolicyKind::kOff);
    ASSERT_TRUE(same_bits(grows.result.logits, same.result.logits)) << token;
  }
}

}  // namespace
}  // namespace lynx::testing
