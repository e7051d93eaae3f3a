// Where a model's tensors come from: a folder of safetensors files, or a random generator for speed work.
// Start-up only, one thread; errors are std::runtime_error "file: tensor: reason".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/tensor.h"
#include "services/engine/safetensors.h"

namespace lynx {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // The tensor of that name; another shape is an error. Its bytes live as long as the returned owner.
  virtual HostTensor tensor(const std::string& name, const std::vector<std::uint64_t>& shape) = 0;
  // Throws when the source holds tensors that nobody asked for: they would change what the model computes.
  virtual void check_all_used() const = 0;
  // Of names, shapes, types and a sample of the content.
  virtual std::uint64_t fingerprint() const = 0;
};

// model.safetensors, or the shards that model.safetensors.index.json lists. BF16 and F32 tensors.
class CheckpointFolder final : public TensorSource {
 public:
  explicit CheckpointFolder(const std::string& folder);

  HostTensor tensor(const std::string& name, const std::vector<std::uint64_t>& shape) override;
  void check_all_used() const override;
  std::uint64_t fingerprint() const override;

 private:
  struct Place {
    std::string file;
    std::shared_ptr<const MappedFile> mapped;
    SafetensorsEntry entry;
  };
  void open_file(const std::string& path);
  void open_shards(const std::string& folder, const std::string& index);

  std::string folder_;
  std::map<std::string, Place> places_;
  std::set<std::string> used_;
};

// Uniform bf16 values of variance 1/columns; ones for norms. The same seed gives the same tensors, in any
// order of asking. Tensors with equally many columns are windows of one run of values, each from a place of
// its own: a model of 60 GB is there in the time it takes to copy it.
class DummyTensors final : public TensorSource {
 public:
  explicit DummyTensors(std::uint64_t seed) : seed_(seed) {}

  HostTensor tensor(const std::string& name, const std::vector<std::uint64_t>& shape) override;
  void check_all_used() const override {}
  std::uint64_t fingerprint() const override;

 private:
  using Values = std::vector<std::uint16_t>;
  const std::shared_ptr<Values>& values_for(std::uint64_t columns, std::size_t count);

  std::uint64_t seed_;
  std::map<std::uint64_t, std::shared_ptr<Values>> values_;  // by columns
};

}  // namespace lynx
