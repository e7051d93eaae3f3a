#include "common/transport/ucx_address.h"

#include <ucp/api/ucp.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "common/transport/kv_wire.h"

namespace lynx {

namespace {

struct Seal {
  char magic[4] = {'L', 'X', 'U', '1'};
  std::uint32_t version = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Seal) == 16, "the seal travels as it lies in memory");

std::uint32_t ucx_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return (major << 16U) | minor;
}

std::string version_name(std::uint32_t version) {
  return std::to_string(version >> 16U) + "." + std::to_string(version & 0xffffU);
}

}  // namespace

std::string seal_address(std::string_view worker_address) {
  Seal seal;
  seal.version = ucx_version();
  seal.checksum = kv_wire::checksum(std::as_bytes(std::span(worker_address)));
  std::string out(sizeof(Seal), '\0');
  std::memcpy(out.data(), &seal, sizeof(seal));
  return out.append(worker_address);
}

Result<std::string> open_address(std::string_view sealed) {
  Seal seal;
  const Seal expected;
  if (sealed.size() <= sizeof(seal)) return {ErrorCode::kInvalidArgument, "no KV address: too short"};
  std::memcpy(&seal, sealed.data(), sizeof(seal));
  if (std::memcmp(seal.magic, expected.magic, sizeof(seal.magic)) != 0)
    return {ErrorCode::kInvalidArgument, "no KV address of this transport"};
  if (seal.version != ucx_version()) {
    return {ErrorCode::kIncompatible, "the peer runs UCX " + version_name(seal.version) + ", this process " +
                                          version_name(ucx_version())};
  }
  const std::string_view address = sealed.substr(sizeof(seal));
  if (seal.checksum != kv_wire::checksum(std::as_bytes(std::span(address))))
    return {ErrorCode::kCorrupt, "the KV address was changed on the way"};
  return std::string(address);
}

}  // namespace lynx
