// Start-up of the backend, and how a step is run. Its operations: cuda_operations.cc.
#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/core/check.h"
#include "kernels/cuda/attention_block.h"
#include "kernels/cuda/route.h"

namespace lynx::cuda {
namespace {

// Of all sizes under a few policies. A policy whose settings change by the step would otherwise fill the
// memory with captured steps.
constexpr std::size_t kMostGraphs = 64;

}  // namespace

// Few sizes, so that few graphs are captured; close enough together that little is padded.
std::uint32_t decode_bucket(std::uint32_t rows) {
  for (const std::uint32_t bucket : {1U, 2U, 4U, 8U, 16U, 24U, 32U, 48U, 64U})
    if (rows <= bucket) return bucket;
  return rows;
}

CudaPlans::CudaPlans(const RouterShape& router, std::uint32_t max_rows, std::uint32_t layer_count,
                     DeviceHeap& heap)
    : shape(router),
      layers(layer_count),
      layer_bytes(device_plan_bytes(router, max_rows)),
      memory(heap.take(layer_bytes * layer_count)),
      stats(heap.take(layer_count * sizeof(DevicePlanStats))),
      host_stats(layer_count * sizeof(DevicePlanStats)),
      row_stats(heap.take(layer_count * kDecodeRows * sizeof(DevicePlanRow))),
      host_row_stats(layer_count * kDecodeRows * sizeof(DevicePlanRow)) {}

DevicePlan CudaPlans::layer(std::uint32_t index, std::uint32_t rows) const {
  DevicePlan plan = device_plan_view(memory.get() + index * layer_bytes, shape, rows);
  plan.stats = reinterpret_cast<DevicePlanStats*>(stats.get()) + index;  // side by side: one copy for all
  plan.row_stats = reinterpret_cast<DevicePlanRow*>(row_stats.get()) + std::size_t{index} * kDecodeRows;
  return plan;
}

CudaBackend::CudaBackend(bool repeat_steps)
    : gpu_(open_gpu()),
      repeat_steps_(repeat_steps),
      stream_(make_stream()),
      long_wait_(sizeof(LongWaitNote)) {
  *long_wait() = 0;
}

CudaBackend::~CudaBackend() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

std::string CudaBackend::description() const {
  return "cuda " + gpu_.name + ", " + std::to_string(gpu_.multiprocessors) + " multiprocessors" +
         (gpu_.kernels == KernelSet::kPortable ? ", portable kernels" : "");
}

std::uint64_t CudaBackend::memory_held() const { return heap_.held() + WideGemm::workspace_bytes(); }

Tensor CudaBackend::allocate(Dtype dtype, std::uint32_t rows, std::uint32_t cols) {
  DeviceMemory memory = heap_.take(std::max<std::size_t>(1, std::size_t{rows} * cols * bytes_of(dtype)));
  const TensorView view{memory.get(), dtype, rows, cols, cols};
  return {std::move(memory), view};
}

Tensor CudaBackend::upload(const HostTensor& tensor, Dtype as) {
  Tensor out =
      allocate(as, static_cast<std::uint32_t>(tensor.rows()), static_cast<std::uint32_t>(tensor.cols()));
  std::vector<std::byte> scratch;
  const std::span<const std::byte> bytes = elements_as(tensor, as, scratch);
  check(cudaMemcpy(out.view.data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy of a tensor");
  return out;
}

std::unique_ptr<Matrix> CudaBackend::load_matrix(std::span<const HostTensor> parts) {
  return std::make_unique<CudaMatrix>(parts, heap_);
}

std::unique_ptr<ExpertWeights> CudaBackend::load_experts(std::span<const ExpertTensors> experts) {
  auto out = std::make_unique<CudaExperts>(experts, heap_, stream_.get());
  expert_shape_ = out->shape();
  return out;
}

std::unique_ptr<KvPool> CudaBackend::attach_kv(const PageLayout& layout, std::span<std::byte> host) {
  const std::uint32_t limit = decode_context_limit(gpu_.kernels, layout.dtype, layout.head_dim);
  if (limits_.context > limit)
    throw std::runtime_error("device 'cuda': this GPU's kernels take contexts of up to " +
                             std::to_string(limit) + " tokens; model and KV pool allow " +
                             std::to_string(limits_.context));
  auto out = std::make_unique<CudaKvPool>(layout, host, heap_);
  if (stage_.fit_tables(limits_.logit_rows, stage_.table_stride(layout), heap_)) graphs_.clear();
  return out;
}

std::unique_ptr<RoutingPlans> CudaBackend::make_plans(const RouterShape& shape, std::uint32_t max_rows,
                                                      std::uint32_t layers) {
  if (const Status status = check_route(shape, limits_.policy); !status)
    throw std::runtime_error("device 'cuda': " + status.error().message);
  graphs_.clear();
  if (expert_shape_.experts != 0)
    experts_workspace_ = heap_.take(experts_workspace_bytes(expert_shape_, shape.top_k, max_rows));
  return std::make_unique<CudaPlans>(shape, max_rows, layers, heap_);
}

StepShape CudaBackend::reserve(const StepLimits& limits) {
  graphs_.clear();
  limits_ = limits;
  limits_.rows = decode_bucket(limits.rows);
  limits_.logit_rows = decode_bucket(limits.logit_rows);
  stage_.reserve(limits_, heap_);
  const std::uint32_t decode_rows = std::min(limits_.rows, kDecodeRows);
  attention_workspace_ = heap_.take(decode_attention_workspace(decode_rows, limits.q_heads, limits.kv_heads,
                                                               limits.head_dim, limits.context));
  block_meetings_ = heap_.take(kAttentionBlockMeetings * sizeof(std::uint32_t));
  sample_workspace_ = heap_.take(sample_workspace(limits_.logit_rows));
  samples_ = heap_.take(limits_.logit_rows * sizeof(SampledRow));
  host_samples_ = PinnedMemory(limits_.logit_rows * sizeof(SampledRow));
  host_logits_ = PinnedMemory(std::size_t{limits_.logit_rows} * limits.vocab * sizeof(float));
  return {limits_.rows, limits_.logit_rows};
}

void CudaBackend::import_kv(KvPool& kv, std::span<const BlockId> blocks) {
  traffic_.import(static_cast<const CudaKvPool&>(kv), blocks);
}

void CudaBackend::run_step(const StepBatch& batch, KvPool& kv, KvReady kv_ready,
                           const Operations& operations) {
  step_.kv = &static_cast<const CudaKvPool&>(kv);
  step_.decode = batch.decode;
  step_.policy = batch.policy;
  step_.kv_ready = std::move(kv_ready);
  step_.rows = static_cast<std::uint32_t>(batch.tokens.size());
  step_.logit_rows = static_cast<std::uint32_t>(batch.logit_rows.size());
  step_.row_routing = batch.row_routing;
  step_.shape = {step_.rows, step_.logit_rows};
  if (step_.decode && repeat_steps_)
    step_.shape = {decode_bucket(step_.rows), decode_bucket(step_.logit_rows)};
  LYNX_CHECK(step_.shape.rows <= limits_.rows && step_.shape.logit_rows <= limits_.logit_rows,
             "the step is larger than what was reserved");
  LYNX_CHECK(!step_.decode || step_.rows <= kDecodeRows, "a decode step has at most 64 rows");
  LYNX_CHECK(step_.decode || !step_.row_routing,
             "prefill routes exactly: there is nothing to tell of its rows");
  step_.on_device.assign(step_.logit_rows, false);
  step_.fetched.assign(step_.logit_rows, true);
  for (std::size_t r = 0; r < batch.sampling.size(); ++r) {
    step_.on_device[r] = batch.sampling[r].on_device;
    step_.fetched[r] = !batch.sampling[r].on_device || batch.sampling[r].logits;
  }

  const PageLayout& layout = kv.layout();
  if (stage_.fit_tables(static_cast<std::uint32_t>(batch.sequences.size()), stage_.table_stride(layout),
                        heap_))
    graphs_.clear();
  try {
    traffic_.wait_for_imports(stream_.get());
    stage_.load(batch, layout, stream_.get());
    if (step_.kv_ready) traffic_.begin_exports(batch.sequences, layout);
    if (step_.decode && repeat_steps_ && !step_.kv_ready) {
      repeat({step_.shape.rows, step_.shape.logit_rows, step_.kv->serial(), batch.policy}, operations);
    } else {
      operations(step_.shape);
    }
  } catch (...) {
    abandon_step();
    throw;
  }
}

// The stage is free again, nothing is under way in blocks that end with their sequences, and what the
// launches that were made have counted for those that were not is forgotten.
void CudaBackend::abandon_step() noexcept {
  if (experts_workspace_.get() != nullptr)
    static_cast<void>(
        cudaMemsetAsync(experts_workspace_.get(), 0, experts_count_bytes(expert_shape_), stream_.get()));
  static_cast<void>(cudaStreamSynchronize(stream_.get()));  // what copies out waits for it
  traffic_.abandon();
}

void CudaBackend::repeat(const GraphKey& key, const Operations& operations) {
  auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& g) { return g.first == key; });
  if (found == graphs_.end()) {
    if (graphs_.size() == kMostGraphs) graphs_.erase(graphs_.begin());  // the oldest
    Capture capture(stream_.get());
    operations(step_.shape);
    found = graphs_.emplace(graphs_.end(), key, capture.finish());
  }
  check(cudaGraphLaunch(found->second.get(), stream_.get()), "cudaGraphLaunch");
}

void CudaBackend::enqueue_results(const CudaPlans& plans) {
  const auto fetch = [&](void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync of results");
  };
  fetch(plans.host_stats.data(), plans.stats.get(), plans.layers * sizeof(DevicePlanStats));
  if (step_.row_routing)
    fetch(plans.host_row_stats.data(), plans.row_stats.get(),
          plans.layers * kDecodeRows * sizeof(DevicePlanRow));
  if (step_.logit_rows == 0) return;
  fetch(host_samples_.data(), samples_.get(), step_.logit_rows * sizeof(SampledRow));
  const std::size_t row_bytes = logits_.cols * sizeof(float);
  std::size_t taken = 0;
  for (std::uint32_t r = 0; r < step_.logit_rows; ++r)
    if (step_.fetched[r]) fetch(host_logits_.data() + taken++ * row_bytes, logits_.f32_row(r), row_bytes);
}

void CudaBackend::collect(StepResult& result, const RoutingPlans& plans) {
  const auto& device_plans = static_cast<const CudaPlans&>(plans);
  try {
    enqueue_results(device_plans);
    if (step_.kv_ready) traffic_.finish_exports(step_.kv_ready);
    check(cudaStreamSynchronize(stream_.get()), "a step");
  } catch (const DeviceLost& e) {
    abandon_step();
    throw DeviceLost(e.what() + describe(*long_wait()));
  } catch (...) {
    abandon_step();
    throw;
  }

  result.layers.clear();
  for (std::uint32_t layer = 0; layer < device_plans.layers; ++layer)
    result.layers.push_back(to_plan_stats(device_plans.host_stats.at<DevicePlanStats>(0)[layer]));
  result.routing.assign(step_.row_routing ? step_.rows : 0, {});
  for (std::size_t layer = 0; step_.row_routing && layer < device_plans.layers; ++layer)
    for (std::uint32_t row = 0; row < step_.rows; ++row) {
      const auto& of_row = device_plans.host_row_stats.at<DevicePlanRow>(0)[layer * kDecodeRows + row];
      result.routing[row].remapped += of_row.remapped;
      result.routing[row].mass_q24 += of_row.retained_q24;
    }
  result.samples.assign(step_.logit_rows, {});
  result.computed_rows = step_.shape.rows;
  for (std::uint32_t r = 0; r < step_.logit_rows; ++r) {
    if (!step_.on_device[r]) continue;
    const SampledRow& sampled = host_samples_.at<SampledRow>(0)[r];
    result.samples[r] = {sampled.unusable != 0 ? RowSample::State::kUnusable : RowSample::State::kToken,
                         sampled.token, sampled.logprob};
  }
  const auto fetched = static_cast<std::size_t>(std::count(step_.fetched.begin(), step_.fetched.end(), true));
  const auto* logits = host_logits_.at<float>(0);
  result.logits.assign(logits, logits + fetched * logits_.cols);
}

}  // namespace lynx::cuda
