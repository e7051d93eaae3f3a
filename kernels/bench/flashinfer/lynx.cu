// Our own decode attention behind the same interface. It also turns the step's queries and keys and writes
// the newest keys and values into the pages; here it turns them by nothing and writes what the pages hold
// already, so that its results are those of the others.
#include <algorithm>
#include <stdexcept>

#include "kernels/bench/device_graph.h"
#include "kernels/bench/flashinfer/decoder.h"
#include "kernels/cuda/attention.h"

namespace lynx::flashinfer {
namespace {

using cuda::DeviceBlock;

class LynxDecoder final : public Decoder {
 public:
  explicit LynxDecoder(const DecodeBatch& batch)
      : batch_(batch),
        context_(batch.pages_of_row * kPageTokens),
        tables_(cuda::upload_block<BlockId>(std::vector<BlockId>(batch.pages.begin(), batch.pages.end()))),
        workspace_(cuda::allocate_block<std::byte>(cuda::decode_attention_workspace(
            batch.rows(), batch.q_heads, batch.kv_heads, kHeadDim, context_))) {
    if (batch.order != PageOrder::kTokens) throw std::invalid_argument("our pages hold token after token");
    std::vector<std::uint32_t> positions;
    for (const std::int32_t length : batch.lengths)
      positions.push_back(static_cast<std::uint32_t>(length - 1));
    positions_ = cuda::upload_block<std::uint32_t>(positions);
    std::vector<float> rope(std::size_t{context_} * kHeadDim);  // cosines of 1, sines of 0
    for (std::size_t at = 0; at < rope.size(); at += kHeadDim)
      std::fill_n(rope.begin() + at, kHeadDim / 2, 1.0F);
    rope_ = cuda::upload_block<float>(rope);
  }

  bool takes_f32() const override { return true; }

  void run(const DecodeTensors& tensors, cudaStream_t stream) override {
    const std::uint32_t rows = batch_.rows();
    const std::uint32_t columns = batch_.q_heads * kHeadDim;
    cuda::decode_attention(
        {.out = {static_cast<std::byte*>(tensors.out), Dtype::kBf16, rows, columns, columns},
         .in = {.q = f32_rows(tensors.q, rows, columns),
                .k = f32_rows(tensors.k, rows, batch_.kv_heads * kHeadDim),
                .v = f32_rows(tensors.v, rows, batch_.kv_heads * kHeadDim),
                .q_weight = {},  // heads are not normed
                .k_weight = {},
                .rope = f32_rows(rope_.get(), context_, kHeadDim),
                .kv = layer_at(tensors.layer),
                .rows = {.positions = positions_.get(),
                         .sequence = nullptr,
                         .tables = tables_.get(),
                         .table_stride = batch_.pages_of_row,
                         .live_rows = nullptr}},
         .max_context = context_,
         .workspace = workspace_.get()},
        stream);
  }

 private:
  static TensorView f32_rows(const void* data, std::uint32_t rows, std::uint32_t columns) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), Dtype::kF32, rows, columns, columns};
  }
  cuda::KvLayer layer_at(void* pages) const {
    return {.base = static_cast<std::byte*>(pages),
            .block_bytes = std::size_t{2} * batch_.page_stride(),
            .token_bytes = 2 * batch_.token_stride(),
            .v_bytes = 2 * batch_.k_size(),
            .block_tokens = kPageTokens,
            .kv_heads = batch_.kv_heads,
            .head_dim = kHeadDim,
            .dtype = KvDtype::kBf16};
  }

  DecodeBatch batch_;
  std::uint32_t context_;
  DeviceBlock<BlockId> tables_;
  DeviceBlock<std::uint32_t> positions_;
  DeviceBlock<float> rope_;  // [context, 128]
  DeviceBlock<std::byte> workspace_;
};

}  // namespace

std::unique_ptr<Decoder> make_lynx_decoder(const DecodeBatch& batch) {
  return std::make_unique<LynxDecoder>(batch);
}

}  // namespace lynx::flashinfer
