#include "tests/services/engine/fake_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace lynx::testing {
namespace {

constexpr std::uint32_t kHeadDim = 4;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  config_.architecture = "Fake";
  config_.vocab = options_.vocab;
  config_.hidden = 8;
  config_.layers = options_.layers;
  config_.q_heads = config_.kv_heads = 1;
  config_.head_dim = kHeadDim;
  config_.moe_intermediate = 4;
  config_.router = {16, 2, true, RouterKind::kSoftmax};
  config_.context = options_.context;
  config_.eos = options_.eos;
}

PageLayout FakeModel::layout(std::uint32_t blocks, const FakeModelOptions& options) {
  PageLayout layout;
  layout.layers = options.layers;
  layout.blocks = blocks;
  layout.block_tokens = 4;
  layout.kv_heads = 1;
  layout.head_dim = kHeadDim;
  return layout;
}

void FakeModel::import_kv(KvCache&, std::span<const BlockId> blocks) {
  imported_.insert(imported_.end(), blocks.begin(), blocks.end());
}

void FakeModel::launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) {
  if (options_.on_launch) options_.on_launch();
  batch_ = batch;
  cache_ = &cache;
  observer_ = observer;
  if (!options_.overlaps) compute();
}

void FakeModel::read_plan(std::uint32_t layer, ExpertPlan& plan) {
  plan = {};
  plan.rows = static_cast<std::uint32_t>(batch_.tokens.size());
  plan.top_k = config_.router.top_k;
  for (const TokenId token : batch_.tokens) {
    plan.experts.push_back(token % config_.router.experts);
    plan.experts.push_back((token + layer + 1) % config_.router.experts);
  }
}

void FakeModel::collect(StepResult& result) {
  if (options_.overlaps) compute();
  result = std::move(result_);
}

void FakeModel::compute() {
  const StepBatch& batch = batch_;
  KvCache& cache = *cache_;
  StepResult& result = result_;
  const auto holds = [&](TokenId token) {
    return std::find(batch.tokens.begin(), batch.tokens.end(), token) != batch.tokens.end();
  };
  if (holds(options_.throw_token)) throw std::bad_alloc();
  if (holds(options_.lost_token)) throw DeviceLost("the device is gone");
  if (options_.looks_throw && batch.decode && batch.policy.kind == PolicyKind::kOff) throw std::bad_alloc();
  const auto rows = static_cast<std::uint32_t>(batch.tokens.size());
  const std::uint32_t routed = std::min(config_.router.experts, rows * config_.router.top_k);
  const bool off = batch.policy.kind == PolicyKind::kOff;
  result.layers.assign(config_.layers, {routed, off ? routed : std::max(2U, routed / 2), rows * 2,
                                        off ? 0U : rows, static_cast<double>(rows), 1});
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    if (options_.on_layer) options_.on_layer(layer);
    write_kv(batch, cache, layer);
    if (observer_ != nullptr) observer_->layer_done(layer);
  }
  result.computed_rows = rows + 1;  // as if padded
  result.samples.assign(batch.logit_rows.size(), {});
  result.logits.clear();
  for (std::size_t r = 0; r < batch.logit_rows.size(); ++r) {
    const std::uint32_t row = batch.logit_rows[r];
    const auto owner =
        std::find_if(batch.sequences.begin(), batch.sequences.end(),
                     [&](const SequenceRows& s) { return row >= s.first_row && row < s.first_row + s.rows; });
    const std::uint64_t seed = digest(*owner, owner->context + row - owner->first_row, cache);
    if (options_.samples && r < batch.sampling.size() && batch.sampling[r].on_device) {
      result.samples[r] = {RowSample::State::kToken, static_cast<TokenId>(seed % config_.vocab), 0};
      if (!batch.sampling[r].logits) continue;
    }
    const bool bad = batch.tokens[row] == options_.nan_token;
    for (std::uint32_t token = 0; token < config_.vocab; ++token)
      result.logits.push_back(bad ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(mix(seed + token) >> 40) * 0x1p-21F);
  }
}

void FakeModel::write_kv(const StepBatch& batch, KvCache& cache, std::uint32_t layer) const {
  const PageLayout& layout = cache.layout();
  for (const SequenceRows& s : batch.sequences) {
    for (std::uint32_t i = 0; i < s.rows; ++i) {
      const std::uint32_t position = s.context + i;
      const BlockId block = s.blocks[position / layout.block_tokens];
      const std::uint32_t slot = position % layout.block_tokens;
      float k[kHeadDim];
      float v[kHeadDim];
      for (std::uint32_t d = 0; d < kHeadDim; ++d) {
        const std::uint64_t h = mix((std::uint64_t{layer} << 48) + (std::uint64_t{position} << 24) +
                                    batch.tokens[s.first_row + i] * 8 + d);
        k[d] = static_cast<float>(h & 0xFFFFF);
        v[d] = static_cast<float>(h >> 44);
      }
      std::memcpy(cache.at(layout.k_offset(layer, block, slot)), k, sizeof k);
      std::memcpy(cache.at(layout.v_offset(layer, block, slot)), v, sizeof v);
    }
  }
}

std::uint64_t FakeModel::digest(const SequenceRows& rows, std::uint32_t position, KvCache& cache) const {
  const PageLayout& layout = cache.layout();
  std::uint64_t hash = 1;
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    for (std::uint32_t p = 0; p <= position; ++p) {
      const BlockId block = rows.blocks[p / layout.block_tokens];
      for (const std::size_t offset : {layout.k_offset(layer, block, p % layout.block_tokens),
                                       layout.v_offset(layer, block, p % layout.block_tokens)}) {
        std::uint64_t words[2];
        static_assert(sizeof words == kHeadDim * sizeof(float));
        std::memcpy(words, cache.at(offset), sizeof words);
        hash = mix(mix(hash ^ words[0]) ^ words[1]);
      }
    }
  }
  return hash;
}

}  // namespace lynx::testing
