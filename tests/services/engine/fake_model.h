// A model without arithmetic for tests of everything around a model: the KV it writes is a function of
// (layer, position, token), and its logits are a hash of every KV byte that the sequence holds up to the row.
// One wrong, missing or moved block therefore changes what is generated, and a row's result depends on no
// other row.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "services/engine/kv_cache.h"
#include "services/engine/model.h"

namespace lynx::testing {

struct FakeModelOptions {
  std::uint32_t vocab = 101;
  std::uint32_t layers = 3;
  std::uint32_t context = 256;
  std::vector<TokenId> eos{7};
  TokenId nan_token = 0xFFFFFFFF;    // a row of this token gets NaN logits
  TokenId throw_token = 0xFFFFFFFF;  // a batch with this token throws std::bad_alloc
  TokenId lost_token = 0xFFFFFFFF;   // a batch with this token throws DeviceLost
  bool looks_throw = false;  // an exact decode step of one row, as a look at the drift, throws std::bad_alloc
  bool overlaps = false;     // computes in collect, as a device might
  bool samples = false;      // as a device does, by other rounding than the host: other tokens
  std::function<void()> on_launch;
  std::function<void(std::uint32_t layer)> on_layer;  // on the engine thread, before a layer computes
};

class FakeModel final : public Model {
 public:
  explicit FakeModel(FakeModelOptions options = {});

  const ModelConfig& config() const override { return config_; }
  std::uint64_t fingerprint() const override { return 0xFA4E; }
  ModelTraits traits() const override { return {options_.overlaps, "fake", 0}; }
  void attach(KvCache&) override {}
  void import_kv(KvCache& cache, std::span<const BlockId> blocks) override;
  void launch(const StepBatch& batch, KvCache& cache, LayerObserver* observer) override;
  void collect(StepResult& result) override;
  // A token t goes to the experts t and t + layer + 1, modulo their number.
  void read_plan(std::uint32_t layer, ExpertPlan& plan) override;

  const std::vector<BlockId>& imported() const { return imported_; }

  // Fits this model; f32.
  static PageLayout layout(std::uint32_t blocks, const FakeModelOptions& options = {});

 private:
  void compute();
  void write_kv(const StepBatch& batch, KvCache& cache, std::uint32_t layer) const;
  std::uint64_t digest(const SequenceRows& rows, std::uint32_t position, KvCache& cache) const;

  FakeModelOptions options_;
  ModelConfig config_;
  StepBatch batch_;
  KvCache* cache_ = nullptr;
  LayerObserver* observer_ = nullptr;
  StepResult result_;
  std::vector<BlockId> imported_;
};

}  // namespace lynx::testing
