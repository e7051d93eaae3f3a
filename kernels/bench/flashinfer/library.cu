// The C functions that measure.py loads. A function that fails returns null or a negative number, and
// decoder_error() says why until the next call.
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "kernels/bench/device_graph.h"
#include "kernels/bench/device_roofline.h"
#include "kernels/bench/flashinfer/decoder.h"

namespace lynx::flashinfer {
namespace {

std::string last_error;

template <typename Call, typename Value>
Value guarded(Call call, Value failed) {
  try {
    last_error.clear();
    return call();
  } catch (const std::exception& error) {
    last_error = error.what();
    return failed;
  }
}

DecodeBatch make_batch(std::uint32_t rows, std::uint32_t q_heads, std::uint32_t kv_heads,
                       std::uint32_t pages_of_row, const std::int32_t* lengths, const std::int32_t* pages,
                       std::int32_t heads_first) {
  DecodeBatch batch{.q_heads = q_heads,
                    .kv_heads = kv_heads,
                    .pages_of_row = pages_of_row,
                    .order = heads_first != 0 ? PageOrder::kHeads : PageOrder::kTokens,
                    .lengths = {lengths, lengths + rows},
                    .pages = {pages, pages + std::size_t{rows} * pages_of_row}};
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (lengths[row] < 1 || batch.pages_for(row) > pages_of_row)
      throw std::invalid_argument("lengths[" + std::to_string(row) + "]: " + std::to_string(lengths[row]) +
                                  " tokens do not fit its pages");
  }
  return batch;
}

std::unique_ptr<Decoder> make_decoder(const std::string& kind, const DecodeBatch& batch) {
  if (kind == "lynx") return make_lynx_decoder(batch);
  if (kind == "xqa") return make_xqa_decoder(batch);
  if (kind == "cuda-cores") return make_cuda_core_decoder(batch, PlanFor::kGraph);
  if (kind == "cuda-cores-exact") return make_cuda_core_decoder(batch, PlanFor::kExact);
  if (kind == "tensor-cores") return make_tensor_core_decoder(batch, PlanFor::kGraph);
  if (kind == "tensor-cores-exact") return make_tensor_core_decoder(batch, PlanFor::kExact);
  throw std::invalid_argument("no decoder is called '" + kind + "'");
}

}  // namespace

extern "C" {

const char* decoder_error() { return last_error.c_str(); }

// lengths [rows] and pages [rows, pages_of_row] are on the host and copied.
Decoder* decoder_open(const char* kind, std::uint32_t rows, std::uint32_t q_heads, std::uint32_t kv_heads,
                      std::uint32_t pages_of_row, const std::int32_t* lengths, const std::int32_t* pages,
                      std::int32_t heads_first) {
  return guarded(
      [&] {
        const DecodeBatch batch =
            make_batch(rows, q_heads, kv_heads, pages_of_row, lengths, pages, heads_first);
        return make_decoder(kind, batch).release();
      },
      static_cast<Decoder*>(nullptr));
}

int decoder_takes_f32(const Decoder* decoder) { return decoder->takes_f32() ? 1 : 0; }

// k and v may be null where decoder_takes_f32 says 0.
int decoder_run(Decoder* decoder, const void* q, const void* k, const void* v, void* layer, void* out,
                cudaStream_t stream) {
  return guarded(
      [&] {
        decoder->run({.q = q, .k = k, .v = v, .layer = layer, .out = out}, stream);
        return 0;
      },
      -1);
}

void decoder_close(Decoder* decoder) { delete decoder; }

// Bytes a second, as lynx-bench measures them.
double read_bandwidth(std::size_t bytes) {
  return guarded([&] { return cuda::device_read_bandwidth(bytes); }, -1.0);
}

}  // extern "C"

}  // namespace lynx::flashinfer
