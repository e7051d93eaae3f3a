// Where the bytes of a KV pool lie. A transport moves either and needs to know nothing else of a device.
#pragma once

#include <cstdint>

namespace lynx {

enum class KvMemory : std::uint8_t {
  kHost,
  kDevice,  // a GPU's: this process gives their addresses on, and neither reads nor writes them
};

}  // namespace lynx
