// The shipped model on a GPU for tests: sequences in a cache of their own, run through a model by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"
#include "tests/services/engine/golden_data.h"
#include "tests/services/engine/row_closeness.h"
#include "tests/support/paths.h"

namespace lynx::testing {

inline constexpr std::uint32_t kBlockTokens = 16;
inline constexpr std::uint32_t kTokens = 192;  // that a sequence has room for

inline std::vector<std::vector<TokenId>> prompts(std::size_t count) {
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
    batch.row_routing = true;
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

// Skips where no GPU is, and says so. A GPU that is there and cannot be used is a failure.
class CudaModel : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      ASSERT_TRUE(device_space("cuda").has_value());
    } catch (const NoGpu& e) {
      GTEST_SKIP() << e.what();
    }
  }
  static std::unique_ptr<Model> load(const std::string& device, bool repeat_steps = true,
                                     std::uint32_t max_context = kAnyContext) {
    ModelOptions options;
    options.backend.device = device;
    options.backend.threads = 2;
    options.backend.repeat_steps = repeat_steps;
    options.max_rows = options.max_logit_rows = 64;
    options.max_context = max_context;
    return load_model(source_path("deploy/model"), options);
  }
};

inline std::vector<float> row(const StepResult& result, std::size_t r, std::size_t vocab) {
  const auto begin = result.logits.begin() + static_cast<std::ptrdiff_t>(r * vocab);
  return {begin, begin + static_cast<std::ptrdiff_t>(vocab)};
}

inline std::vector<TokenId> some_tokens(std::size_t count, TokenId first) {
  std::vector<TokenId> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = first + static_cast<TokenId>(i * 37);
  return out;
}

}  // namespace lynx::testing
