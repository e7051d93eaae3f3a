// XQA, the decode kernel that FlashInfer's trtllm_batch_decode_with_kv_cache chooses on a Hopper. The source
// that comes with FlashInfer is compiled into this file; its macros (bf16, pages of 16, groups of 8) come
// from `build`.
#include <stdexcept>

#include "mha.cu"

#include "kernels/bench/device_graph.h"
#include "kernels/bench/flashinfer/decoder.h"

namespace lynx::flashinfer {
namespace {

using cuda::allocate_block;
using cuda::DeviceBlock;

static_assert(TOKENS_PER_PAGE == kPageTokens && HEAD_ELEMS == kHeadDim, "the macros are those of decoder.h");

class XqaDecoder final : public Decoder {
 public:
  explicit XqaDecoder(const DecodeBatch& batch)
      : batch_(batch),
        pages_(cuda::upload_block<std::int32_t>(batch.pages)),
        lengths_(cuda::upload_block<std::uint32_t>(
            std::vector<std::uint32_t>(batch.lengths.begin(), batch.lengths.end()))) {
    if (batch.q_heads != HEAD_GRP_SIZE * batch.kv_heads)
      throw std::invalid_argument("q_heads must be 8 times kv_heads: no other group is compiled in");
  }

  void run(const DecodeTensors& tensors, cudaStream_t stream) override {
    auto* k = static_cast<Bf16*>(tensors.layer);
    launchMHAFlashInfer(cuda::multiprocessors(), batch_.kv_heads, /*slidingWinSize=*/0, /*qScale=*/1, nullptr,
                        static_cast<OutputHead*>(tensors.out), static_cast<const InputHead*>(tensors.q),
                        /*attentionSinks=*/nullptr, reinterpret_cast<GMemCacheHead*>(k),
                        reinterpret_cast<GMemCacheHead*>(k + batch_.k_size()), pages_.get(),
                        batch_.pages_of_row * kPageTokens, lengths_.get(), batch_.rows(), /*kvCacheScale=*/1,
                        nullptr, semaphores_.get(), scratch_.get(), /*enable_pdl=*/true, batch_.page_stride(),
                        batch_.token_stride(), batch_.head_stride(), stream);
    cuda::require(cudaGetLastError(), "XQA");
  }

 private:
  using Bf16 = __nv_bfloat16;
  static constexpr std::size_t kSemaphoreBytes = std::size_t{8}
                                                 << 20;  // as FlashInfer lays its workspace out
  static constexpr std::size_t kScratchBytes = std::size_t{120} << 20;

  DecodeBatch batch_;
  DeviceBlock<std::int32_t> pages_;
  DeviceBlock<std::uint32_t> lengths_;
  DeviceBlock<std::uint32_t> semaphores_ = allocate_block<std::uint32_t>(kSemaphoreBytes / 4);  // zeroed once
  DeviceBlock<std::byte> scratch_ = allocate_block<std::byte>(kScratchBytes);
};

}  // namespace

std::unique_ptr<Decoder> make_xqa_decoder(const DecodeBatch& batch) {
  return std::make_unique<XqaDecoder>(batch);
}

}  // namespace lynx::flashinfer
