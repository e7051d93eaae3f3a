// What a decode step on a GPU promises: padding does not show, a graph does what its operations do. Skipped
// where no GPU is.
#include "tests/services/engine/cuda_model.h"

namespace lynx::testing {
namespace {

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

// Field report 15: a step that comes again costs the host one launch, not one for each operation; so what it
// takes is the device's time.
TEST_F(CudaModel, AStepThatComesAgainIsOneLaunch) {
  const auto backend = make_backend({.device = "cuda"});
  PageLayout layout;
  layout.layers = 1;
  layout.blocks = 8;
  layout.kv_heads = 2;
  layout.head_dim = 64;
  KvCache cache(layout);
  StepLimits limits{.rows = 8, .logit_rows = 8, .context = 64, .q_heads = 4, .kv_heads = 2, .head_dim = 64};
  limits.vocab = 128;
  backend->reserve(limits);
  const auto kv = backend->attach_kv(layout, cache.bytes());
  const auto plans = backend->make_plans({64, 8, true, RouterKind::kSoftmax}, 8, 1);
  const Tensor table = backend->allocate(Dtype::kBf16, 128, 64);
  const Tensor hidden = backend->allocate(Dtype::kF32, 8, 64);
  std::size_t calls = 0;
  std::uint32_t padded = 0;
  const auto run = [&](std::uint32_t rows, PolicyKind policy) {
    const std::vector<TokenId> tokens(rows, 3);
    std::vector<BlockId> blocks(rows);
    std::vector<SequenceRows> sequences;
    for (std::uint32_t r = 0; r < rows; ++r) {
      blocks[r] = r;
      sequences.push_back({r, 1, 0, {&blocks[r], 1}});
    }
    StepBatch batch;
    batch.tokens = tokens;
    batch.sequences = sequences;
    batch.policy.kind = policy;
    batch.decode = true;
    backend->run_step(batch, *kv, {}, [&](const StepShape& shape) {
      ++calls;
      padded = shape.rows;
      backend->embed(hidden.view.first_rows(shape.rows), table.view);
    });
    StepResult result;
    backend->collect(result, *plans);
  };
  for (const std::uint32_t rows : {5U, 8U, 7U, 5U}) run(rows, PolicyKind::kOff);
  EXPECT_EQ(calls, 1U);
  EXPECT_EQ(padded, 8U);
  run(3, PolicyKind::kOff);
  EXPECT_EQ(calls, 2U);
  EXPECT_EQ(padded, 4U);
  run(6, PolicyKind::kLynx);
  EXPECT_EQ(calls, 3U);
  for (const std::uint32_t rows : {3U, 6U}) run(rows, PolicyKind::kOff);
  EXPECT_EQ(calls, 3U);
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

  const std::vector<RowRouting>& rows = sequences.result.routing;
  ASSERT_EQ(rows.size(), all.size());
  std::uint64_t remapped = 0, by_rows = 0;
  double mass = 0, mass_by_rows = 0;
  for (const PlanStats& layer : sequences.result.layers) {
    remapped += layer.remapped;
    mass += layer.retained_mass_sum;
  }
  for (const RowRouting& r : rows) {
    by_rows += r.remapped;
    mass_by_rows += static_cast<double>(r.mass_q24) / 16777216.0;
  }
  EXPECT_GT(remapped, 0U);
  EXPECT_EQ(by_rows, remapped);
  EXPECT_DOUBLE_EQ(mass_by_rows, mass);
  EXPECT_EQ(rows[3].remapped, 0U);
}

}  // namespace
}  // namespace lynx::testing
