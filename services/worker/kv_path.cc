#include "services/worker/kv_path.h"

#include "common/config/yaml_reader.h"

namespace lynx {

std::string_view to_string(KvPath path) {
  switch (path) {
    case KvPath::kHost:
      return "host";
    case KvPath::kPinned:
      return "pinned";
    case KvPath::kDevice:
      return "device";
  }
  return "unknown";
}

std::string_view describe(KvPath path) {
  switch (path) {
    case KvPath::kHost:
      return "the host's memory, where the CPU computes";
    case KvPath::kPinned:
      return "pinned, over page-locked host memory";
    case KvPath::kDevice:
      return "device, without the host's memory";
  }
  return "unknown";
}

KvMemory memory_of(KvPath path) { return path == KvPath::kDevice ? KvMemory::kDevice : KvMemory::kHost; }

KvPath choose_kv_path(const std::string& wanted, const KvPathFacts& facts) {
  const bool must = wanted == "device";
  if (!facts.gpu) {
    if (must) throw ConfigError("kv.path: 'device', but this worker computes on the CPU");
    return KvPath::kHost;
  }
  if (!must) return KvPath::kPinned;
  if (!facts.ucx_moves_device_memory)
    throw ConfigError(
        "kv.path: 'device', but this UCX does not move device memory: it needs one built with CUDA");
  if (facts.checksum)
    throw ConfigError(
        "kv.path: 'device' and ucx.checksum exclude each other: the CPU does not read the payloads");
  return KvPath::kDevice;
}

}  // namespace lynx
