// Hands KV from a GPU's pool to another process's GPU as the workers do, by both paths of kv.path. Only in
// builds with CUDA.
#pragma once

#include <chrono>
#include <string>

#include "services/worker/kv_path.h"

namespace lynx {

struct BetweenGpus {
  KvPath path = KvPath::kPinned;
  std::string transport = "tcp";
  std::uint32_t push_kilobytes = 8192;  // of one layer; multiples of kGpuBenchBlockKilobytes
  int receiver_gpu = 0;                 // of this process's GPUs
};

inline constexpr std::uint32_t kGpuBenchBlockKilobytes = 32;  // 16 tokens of Qwen3-30B-A3B's KV in bf16

// Bytes a second that left device memory here and landed there: in its GPU's memory (device), or in its
// page-locked pool, from which its GPU's copy follows meanwhile (pinned). Throws std::runtime_error.
double hand_over_rate(const BetweenGpus& run, std::chrono::milliseconds time);

// What the driver copies of such pieces between the two GPUs, or within the one: bytes a second, the median.
double device_copy_rate(const BetweenGpus& run);

// The other process: receives until its stdin closes.
void receive_between_gpus(const BetweenGpus& run);

}  // namespace lynx
