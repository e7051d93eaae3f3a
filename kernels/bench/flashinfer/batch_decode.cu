// FlashInfer's batch decode over a paged cache, as its BatchDecodeWithPagedKVCacheWrapper plans and launches
// it: on CUDA cores, and on tensor cores (use_tensor_cores: its FlashAttention-2 prefill kernel with the 8
// query heads of a KV head in one tile of 16).
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>
#include <stdexcept>
#include <string>

#include "kernels/bench/device_graph.h"
#include "kernels/bench/flashinfer/decoder.h"

namespace lynx::flashinfer {
namespace {

namespace fi = ::flashinfer;
using cuda::DeviceBlock;
using cuda::require;

using Bf16 = nv_bfloat16;
using DecodeParams = fi::BatchDecodeParams<Bf16, Bf16, Bf16, std::int32_t>;
using PrefillParams = fi::BatchPrefillPagedParams<Bf16, Bf16, Bf16, std::int32_t>;
// No custom mask, no sliding window, no soft cap, no ALiBi.
using Variant = fi::DefaultAttention<false, false, false, false>;

constexpr std::uint32_t kGroup = 8;       // query heads of a KV head
constexpr std::uint32_t kQueryTile = 16;  // of the tensor-core kernel, for that group
constexpr auto kNoPositions = fi::PosEncodingMode::kNone;
constexpr float kScale = 0.08838834764831845F;               // 1 / sqrt(128)
constexpr std::size_t kFloatBytes = std::size_t{128} << 20;  // as FlashInfer's documentation advises
constexpr std::size_t kIntBytes = std::size_t{8} << 20;

struct FreePinned {
  void operator()(std::byte* p) const { cudaFreeHost(p); }
};

// The page table as FlashInfer takes it, and its workspaces.
class PagedBatch {
 public:
  explicit PagedBatch(const DecodeBatch& batch) : batch_(batch) {
    if (batch.q_heads != kGroup * batch.kv_heads)
      throw std::invalid_argument("q_heads must be 8 times kv_heads: no other group is compiled in");
    std::vector<std::int32_t> indices, last;
    starts_.push_back(0);
    queries_.push_back(0);
    for (std::uint32_t row = 0; row < batch.rows(); ++row) {
      const std::uint32_t pages = batch.pages_for(row);
      const auto first = batch.pages.begin() + std::size_t{row} * batch.pages_of_row;
      indices.insert(indices.end(), first, first + pages);
      last.push_back(batch.lengths[row] - static_cast<std::int32_t>((pages - 1) * kPageTokens));
      starts_.push_back(static_cast<std::int32_t>(indices.size()));
      queries_.push_back(static_cast<std::int32_t>(row + 1));
    }
    indices_ = upload(indices);
    last_ = upload(last);
    device_starts_ = upload(starts_);
    device_queries_ = upload(queries_);
    void* pinned = nullptr;
    require(cudaMallocHost(&pinned, kIntBytes), "cudaMallocHost");
    pinned_.reset(static_cast<std::byte*>(pinned));
  }

  const DecodeBatch& batch() const { return batch_; }
  std::int32_t* starts() { return starts_.data(); }    // host, [rows + 1], in pages
  std::int32_t* queries() { return queries_.data(); }  // host, [rows + 1]
  std::int32_t* device_queries() const { return device_queries_.get(); }
  std::byte* floats() const { return floats_.get(); }
  std::byte* ints() const { return ints_.get(); }
  std::byte* pinned() const { return pinned_.get(); }

  fi::paged_kv_t<Bf16, std::int32_t> pages(void* layer) const {
    const bool by_head = batch_.order == PageOrder::kHeads;
    const std::int64_t outer = by_head ? batch_.head_stride() : batch_.token_stride();
    const std::int64_t inner = by_head ? batch_.token_stride() : batch_.head_stride();
    const std::int64_t strides[] = {batch_.page_stride(), outer, inner};
    auto* k = static_cast<Bf16*>(layer);
    return {batch_.kv_heads,
            kPageTokens,
            kHeadDim,
            batch_.rows(),
            by_head ? fi::QKVLayout::kHND : fi::QKVLayout::kNHD,
            k,
            k + batch_.k_size(),
            strides,
            strides,
            indices_.get(),
            device_starts_.get(),
            last_.get()};
  }

 private:
  static DeviceBlock<std::int32_t> upload(const std::vector<std::int32_t>& values) {
    return cuda::upload_block<std::int32_t>(values);
  }

  DecodeBatch batch_;
  std::vector<std::int32_t> starts_, queries_;
  DeviceBlock<std::int32_t> indices_, last_, device_starts_, device_queries_;
  DeviceBlock<std::byte> floats_ = cuda::allocate_block<std::byte>(kFloatBytes);
  DeviceBlock<std::byte> ints_ = cuda::allocate_block<std::byte>(kIntBytes);
  std::unique_ptr<std::byte, FreePinned> pinned_;
};

template <typename T>
T* at(std::byte* base, std::int64_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

// What both kernels' parameters have in common.
template <typename Params>
Params common_params(const PagedBatch& paged, const DecodeTensors& tensors) {
  const DecodeBatch& batch = paged.batch();
  Params params;
  params.q = static_cast<Bf16*>(const_cast<void*>(tensors.q));
  params.paged_kv = paged.pages(tensors.layer);
  params.o = static_cast<Bf16*>(tensors.out);
  params.num_qo_heads = batch.q_heads;
  params.q_stride_n = static_cast<std::int32_t>(batch.q_heads * kHeadDim);
  params.q_stride_h = kHeadDim;
  params.window_left = -1;
  params.sm_scale = kScale;
  params.rope_rcp_scale = 1;
  params.rope_rcp_theta = 1e-4F;
  return params;
}

class CudaCoreDecoder final : public Decoder {
 public:
  CudaCoreDecoder(const DecodeBatch& batch, PlanFor plan) : paged_(batch) {
    const auto estimate =
        fi::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<kGroup, kHeadDim, kNoPositions, Variant,
                                                                DecodeParams>;
    require(
        fi::DecodePlan<kHeadDim, kNoPositions, Variant, DecodeParams>(
            paged_.floats(), kFloatBytes, paged_.ints(), paged_.pinned(), kIntBytes, plan_, paged_.starts(),
            batch.rows(), batch.q_heads, kPageTokens, plan == PlanFor::kGraph, nullptr, estimate),
        "FlashInfer's plan of decode");
    require(cudaDeviceSynchronize(), "the plan's copy");
  }

  void run(const DecodeTensors& tensors, cudaStream_t stream) override {
    auto params = common_params<DecodeParams>(paged_, tensors);
    std::byte* ints = paged_.ints();
    params.request_indices = at<std::int32_t>(ints, plan_.request_indices_offset);
    params.kv_tile_indices = at<std::int32_t>(ints, plan_.kv_tile_indices_offset);
    params.o_indptr = at<std::int32_t>(ints, plan_.o_indptr_offset);
    params.kv_chunk_size_ptr = at<std::int32_t>(ints, plan_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<std::uint32_t>(plan_.padded_batch_size);
    Bf16* parts = nullptr;
    float* sums = nullptr;
    if (plan_.split_kv) {
      parts = at<Bf16>(paged_.floats(), plan_.v_offset);
      sums = at<float>(paged_.floats(), plan_.s_offset);
      if (plan_.enable_cuda_graph) params.block_valid_mask = at<bool>(ints, plan_.block_valid_mask_offset);
    }
    const cudaError_t status = fi::BatchDecodeWithPagedKVCacheDispatched<kHeadDim, kNoPositions, Variant>(
        params, parts, sums, /*enable_pdl=*/true, stream);
    require(status, "FlashInfer's decode");
  }

 private:
  PagedBatch paged_;
  fi::DecodePlanInfo plan_;
};

class TensorCoreDecoder final : public Decoder {
 public:
  TensorCoreDecoder(const DecodeBatch& batch, PlanFor plan) : paged_(batch) {
    const std::uint32_t rows = batch.rows();
    require(
        fi::PrefillPlan<std::int32_t>(
            paged_.floats(), kFloatBytes, paged_.ints(), paged_.pinned(), kIntBytes, plan_, paged_.queries(),
            paged_.starts(), rows, rows, batch.q_heads, batch.kv_heads, kHeadDim, kHeadDim, kPageTokens,
            plan == PlanFor::kGraph, sizeof(Bf16), /*window_left=*/-1, /*fixed_split_size=*/-1,
            /*disable_split_kv=*/false, /*num_colocated_ctas=*/0, /*uniform_q_len=*/1,
            /*fixed_uniform_q_len=*/true, nullptr),
        "FlashInfer's plan of prefill");
    require(cudaDeviceSynchronize(), "the plan's copy");
    if (plan_.cta_tile_q != kQueryTile)
      throw std::runtime_error("FlashInfer plans tiles of " + std::to_string(plan_.cta_tile_q) +
                               " queries: compiled in are 16");
  }

  void run(const DecodeTensors& tensors, cudaStream_t stream) override {
    auto params = common_params<PrefillParams>(paged_, tensors);
    std::byte* ints = paged_.ints();
    params.q_indptr = paged_.device_queries();
    params.group_size = fi::uint_fastdiv(kGroup);
    params.request_indices = at<std::int32_t>(ints, plan_.request_indices_offset);
    params.qo_tile_indices = at<std::int32_t>(ints, plan_.qo_tile_indices_offset);
    params.kv_tile_indices = at<std::int32_t>(ints, plan_.kv_tile_indices_offset);
    params.o_indptr = at<std::int32_t>(ints, plan_.o_indptr_offset);
    params.kv_chunk_size_ptr = at<std::int32_t>(ints, plan_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<std::uint32_t>(plan_.padded_batch_size);
    params.max_total_num_rows = static_cast<std::uint32_t>(plan_.total_num_rows);
    Bf16* parts = nullptr;
    float* sums = nullptr;
    if (plan_.split_kv) {
      params.merge_indptr = at<std::int32_t>(ints, plan_.merge_indptr_offset);
      parts = at<Bf16>(paged_.floats(), plan_.v_offset);
      sums = at<float>(paged_.floats(), plan_.s_offset);
    }
    if (plan_.enable_cuda_graph) {
      params.block_valid_mask = at<bool>(ints, plan_.block_valid_mask_offset);
      params.total_num_rows = at<std::uint32_t>(ints, plan_.total_num_rows_offset);
    }
    const cudaError_t status =
        fi::BatchPrefillWithPagedKVCacheDispatched</*SAME_KV_STRIDES=*/true, kQueryTile, kHeadDim, kHeadDim,
                                                   kNoPositions, /*USE_FP16_QK_REDUCTION=*/false,
                                                   fi::MaskMode::kNone, /*USE_TOKEN_HEAD_SF=*/false, Variant>(
            params, parts, sums, /*enable_pdl=*/true, stream);
    require(status, "FlashInfer's tensor-core decode");
  }

 private:
  PagedBatch paged_;
  fi::PrefillPlanInfo plan_;
};

}  // namespace

std::unique_ptr<Decoder> make_cuda_core_decoder(const DecodeBatch& batch, PlanFor plan) {
  return std::make_unique<CudaCoreDecoder>(batch, plan);
}

std::unique_ptr<Decoder> make_tensor_core_decoder(const DecodeBatch& batch, PlanFor plan) {
  return std::make_unique<TensorCoreDecoder>(batch, plan);
}

}  // namespace lynx::flashinfer
