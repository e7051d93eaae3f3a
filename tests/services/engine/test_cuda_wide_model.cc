// A model wide enough that its decode steps of up to 32 rows go through the attention block, which no golden
// model is: a layer up to its experts in one launch, where larger steps take five. Random weights. Skipped
// where no GPU is.
#include "kernels/cuda/attention_block.h"
#include "tests/services/engine/cuda_model.h"

namespace lynx::testing {
namespace {

class CudaWideModel : public CudaModel {
 protected:
  static ModelConfig config() {
    ModelConfig config;
    config.architecture = "Qwen3MoeForCausalLM";
    config.vocab = 2048;
    config.hidden = 2048;
    config.layers = 2;
    config.q_heads = 16;
    config.kv_heads = 2;
    config.head_dim = 128;
    config.moe_intermediate = 256;
    config.router = {16, 4, true, RouterKind::kSoftmax};
    config.context = kTokens;
    return config;
  }
  static std::unique_ptr<Model> load_wide(const std::string& device) {
    ModelOptions options;
    options.max_rows = options.max_logit_rows = 64;
    DummyTensors source(11);
    return make_model(config(), source, make_backend({device, 2}), options);
  }

  // Up to and past a part of 64 keys, at every place of a block of 16 tokens.
  static std::size_t prompt_length(std::size_t s) { return 20 + 3 * s; }
  static void prefill(Sequences& sequences, std::size_t count) {
    for (std::size_t s = 0; s < count; ++s) {
      auto prompt = some_tokens(prompt_length(s), static_cast<TokenId>(50 * s));
      for (TokenId& token : prompt) token %= config().vocab;
      sequences.prefill(s, prompt, 64);
    }
  }
  static std::vector<std::size_t> first(std::size_t count) {
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

// Without this the other tests would say nothing of the block.
TEST_F(CudaWideModel, GoesThroughTheBlock) {
  if (cuda::kernels_of_device() != cuda::KernelSet::kHopper) return;  // the plain kernels have none
  const auto takes = [](std::uint32_t rows) {
    const ModelConfig c = config();
    const std::uint32_t q = c.q_heads * c.head_dim;
    cuda::AttentionBlockArgs args;
    args.x = {nullptr, Dtype::kF32, rows, c.hidden, c.hidden};
    args.qkv_rows = {nullptr, Dtype::kF32, rows, q + 2 * c.kv_heads * c.head_dim, 0};
    args.attention.out = {nullptr, Dtype::kBf16, rows, q, q};
    args.attention.in.kv.dtype = KvDtype::kBf16;
    args.attention.in.kv.head_dim = c.head_dim;
    return cuda::attention_block_takes(args);
  };
  EXPECT_TRUE(takes(1));
  EXPECT_TRUE(takes(32));
  EXPECT_FALSE(takes(40));
}

TEST_F(CudaWideModel, DecodesAsTheCpuDoes) {
  constexpr std::size_t kSequences = 12;
  constexpr int kSteps = 20;  // over the borders of blocks and of a part
  const auto cpu = load_wide("cpu");
  const auto gpu = load_wide("cuda");
  const std::size_t vocab = cpu->config().vocab;
  Sequences on_cpu(*cpu, kSequences);
  Sequences on_gpu(*gpu, kSequences);
  prefill(on_cpu, kSequences);
  prefill(on_gpu, kSequences);
  std::vector<double> errors;
  for (int step = 0; step < kSteps; ++step) {
    const auto tokens = some_tokens(kSequences, static_cast<TokenId>(300 + step));
    on_cpu.decode(first(kSequences), tokens, PolicyKind::kOff);
    on_gpu.decode(first(kSequences), tokens, PolicyKind::kOff);
    for (std::size_t r = 0; r < kSequences; ++r)
      errors.push_back(relative_error(on_gpu.result.logits.data() + r * vocab,
                                      on_cpu.result.logits.data() + r * vocab, vocab));
  }
  std::sort(errors.begin(), errors.end());
  // Activations rounded to bf16 on the CPU move these rows by 0.007 and 0.025; a random router has many
  // nearly equal logits, and where rounding takes another expert, the row is another one.
  EXPECT_LE(errors[errors.size() / 2], 0.02);
  EXPECT_LE(errors[errors.size() * 9 / 10], 0.1);
}

// Some sequences decode in steps that go through the block, others and they in steps that do not: to the bit
// the same, with what either wrote into the pool before.
TEST_F(CudaWideModel, ARowIsTheSameInTheBlockAndApart) {
  constexpr std::size_t kAll = 40;
  constexpr int kSteps = 20;
  const auto model = load_wide("cuda");
  const std::size_t vocab = model->config().vocab;
  for (const std::size_t few : {1U, 16U, 32U}) {
    Sequences block(*model, few);
    Sequences whole(*model, kAll);
    prefill(block, few);
    prefill(whole, kAll);
    for (int step = 0; step < kSteps; ++step) {
      const auto tokens = some_tokens(kAll, static_cast<TokenId>(300 + step));
      whole.decode(first(kAll), tokens, PolicyKind::kOff);
      block.decode(first(few), {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(few)},
                   PolicyKind::kOff);
      for (std::size_t r = 0; r < few; ++r)
        ASSERT_TRUE(same_bits(row(block.result, r, vocab), row(whole.result, r, vocab)))
            << "row " << r << " of " << few << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace lynx::testing
