// Pushes KV to another process as a prefill worker does, ledger and acknowledgements included.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace lynx {

inline constexpr std::size_t kBenchBlockBytes = 64 * 1024;

// Bytes a second that were acknowledged, one run of blocks a push. The receiver is this program again (kv
// --receive). Throws std::runtime_error when a push fails.
double kv_push_rate(const std::string& transport, std::size_t push_bytes, std::chrono::milliseconds time);

// The other process: receives until its stdin closes.
void receive_kv_pushes(const std::string& transport);

}  // namespace lynx
