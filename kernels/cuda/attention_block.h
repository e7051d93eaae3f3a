// What a layer does before its experts, in one launch: x += O attention(rope(QKV norm(x))).
//
// For steps of few rows, whose time is that of reading weights, keys and values: one warp of each
// multiprocessor streams all of them through shared memory, in an order that depends on no result, while the
// others compute and meet the grid three times. The stream pauses before the first two meetings until its
// block has arrived, and with more than 16 rows after its first stage until the rows have come. To the bit
// the same as rms_norm, skinny_gemm, decode_attention and skinny_gemm one after the other
// (attention_block_apart).
//
// The blocks wait for one another, so all of them must be resident: the launch is as large as the device, and
// nothing else that waits may share the multiprocessors at the same time. Processes that take turns on a GPU
// do not; those that share it through MPS do: there it goes apart.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/long_wait.h"
#include "kernels/cuda/timeline.h"

namespace lynx::cuda {

struct AttentionBlockArgs {
  TensorView x;            // [T, H] f32, in and out
  TensorView norm_weight;  // [1, H] f32
  float eps = 0;
  const std::uint16_t* qkv = nullptr;  // [(Hq + 2 Hkv) D, H]
  const std::uint16_t* o = nullptr;    // [H, Hq D]
  TensorView normed;                   // [T, H] bf16: room
  TensorView qkv_rows;                 // [T, (Hq + 2 Hkv) D] f32: room
  DecodeAttentionArgs attention;       // of columns of qkv_rows, into bf16: room for the rows that O takes
  // [kAttentionBlockMeetings] device, zeroed once; launches of one stream share it.
  std::uint32_t* meetings = nullptr;
  LongWaitNote* long_wait = nullptr;  // in pinned host memory, or null
  std::uint64_t* timeline = nullptr;  // [blocks, kBlockMarks] on the device, or null
};
inline constexpr std::uint32_t kAttentionBlockMeetings = 3;

void attention_block(const AttentionBlockArgs& args, cudaStream_t stream);        // T up to kSkinnyRows
void attention_block_apart(const AttentionBlockArgs& args, cudaStream_t stream);  // by five launches or more
// Whether attention_block does it in one launch: on a Hopper, D of 64 or 128, a bf16 pool, H and Hq D
// multiples of 512 from 2,048 to 4,096, up to 32 rows, and sums of qkv that leave the ring its shared memory.
bool attention_block_takes(const AttentionBlockArgs& args);

}  // namespace lynx::cuda
