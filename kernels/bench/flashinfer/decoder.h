// Paged decode attention behind one interface, FlashInfer's kernels and ours: what measure.py calls through
// library.cu. bf16, head dimension 128, pages of 16 tokens; K and V of a page lie one after the other, as in
// our pool. An error is an exception; nothing here is for more than one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lynx::flashinfer {

inline constexpr std::uint32_t kHeadDim = 128;
inline constexpr std::uint32_t kPageTokens = 16;

// The order of a page's values, of K and of V.
enum class PageOrder : std::int32_t {
  kTokens,  // [16, kv_heads, 128], as in our pool: FlashInfer's NHD
  kHeads,   // [kv_heads, 16, 128]: FlashInfer's HND
};

// A batch of one new token a sequence. Copied to where each decoder wants it before the time is taken.
struct DecodeBatch {
  std::uint32_t q_heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t pages_of_row = 0;  // stride of the page table
  PageOrder order = PageOrder::kTokens;
  std::vector<std::int32_t> lengths;  // [rows] tokens, from 1 to 16 * pages_of_row
  std::vector<std::int32_t> pages;    // [rows, pages_of_row]

  std::uint32_t rows() const { return static_cast<std::uint32_t>(lengths.size()); }
  std::uint32_t pages_for(std::uint32_t row) const {
    return (static_cast<std::uint32_t>(lengths[row]) + kPageTokens - 1) / kPageTokens;
  }
  // Elements from one to the next.
  std::uint32_t k_size() const { return kPageTokens * kv_heads * kHeadDim; }  // from a page's K to its V
  std::uint32_t page_stride() const { return 2 * k_size(); }
  std::uint32_t token_stride() const { return order == PageOrder::kTokens ? kv_heads * kHeadDim : kHeadDim; }
  std::uint32_t head_stride() const {
    return order == PageOrder::kTokens ? kHeadDim : kPageTokens * kHeadDim;
  }
};

struct DecodeTensors {
  const void* q = nullptr;  // [rows, q_heads, 128], f32 or bf16 (Decoder::takes_f32)
  // [rows, kv_heads, 128] f32: the last token of each sequence, equal to what the layer's pages hold. For a
  // decoder that takes f32 alone.
  const void* k = nullptr;
  const void* v = nullptr;
  void* layer = nullptr;  // bf16 pages of one layer
  void* out = nullptr;    // [rows, q_heads, 128] bf16
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Whether q is f32, and the newest tokens are read from k and v instead of the pages.
  virtual bool takes_f32() const { return false; }
  // Launches only, so that it can be captured. Launches of one decoder share its workspace: one stream.
  virtual void run(const DecodeTensors& tensors, cudaStream_t stream) = 0;
};

// kGraph: the split of the keys and the grid that FlashInfer uses in a captured graph, which must serve later
// batches, too: a grid for the most blocks. kExact: those for this batch alone.
enum class PlanFor : std::uint8_t { kGraph, kExact };

std::unique_ptr<Decoder> make_cuda_core_decoder(const DecodeBatch& batch, PlanFor plan);
std::unique_ptr<Decoder> make_tensor_core_decoder(const DecodeBatch& batch, PlanFor plan);
std::unique_ptr<Decoder> make_xqa_decoder(const DecodeBatch& batch);
std::unique_ptr<Decoder> make_lynx_decoder(const DecodeBatch& batch);  // PageOrder::kTokens alone

}  // namespace lynx::flashinfer
