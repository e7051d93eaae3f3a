// How KV gets between a worker's device and the other worker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/kv/kv_memory.h"

namespace lynx {

enum class KvPath : std::uint8_t {
  kHost,    // the CPU computes on the pool that UCX moves
  kPinned,  // UCX moves a page-locked pool on the host, copied to and from the GPU's
  kDevice,  // UCX moves the GPU's pool
};

std::string_view to_string(KvPath path);  // of metrics: "host", "pinned", "device"
std::string_view describe(KvPath path);   // for people
KvMemory memory_of(KvPath path);          // of the pool that UCX moves

struct KvPathFacts {
  bool gpu = false;                      // the worker computes on one
  bool ucx_moves_device_memory = false;  // see ucx_devices.h
  bool checksum = false;                 // every payload is to be read by the CPU
};

// wanted: auto, device or pinned, of kv.path. Throws ConfigError that says why `device` cannot be. On a GPU
// auto is pinned: device is quicker only between workers of one machine that see each other's processes, and
// from within one worker nobody can tell where the others will be. Elsewhere UCX copies by the CPU, at a
// seventh of pinned's pace (kernels/README.md has the figures).
KvPath choose_kv_path(const std::string& wanted, const KvPathFacts& facts);

}  // namespace lynx
