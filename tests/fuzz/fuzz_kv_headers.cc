// The headers of KV active messages, and the addresses that registrations carry: any bytes give a value or an
// Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/transport/kv_wire.h"
#include "common/transport/ucx_address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  // What decodes must encode again.
  if (const auto push = lynx::kv_wire::decode_push(bytes); push.ok())
    if (!lynx::kv_wire::decode_push(lynx::kv_wire::bytes_of(lynx::kv_wire::encode(*push))).ok())
      __builtin_trap();
  if (const auto ack = lynx::kv_wire::decode_ack(bytes); ack.ok())
    if (!lynx::kv_wire::decode_ack(lynx::kv_wire::bytes_of(lynx::kv_wire::encode(*ack))).ok())
      __builtin_trap();
  (void)lynx::open_address({reinterpret_cast<const char*>(data), size});
  return 0;
}
