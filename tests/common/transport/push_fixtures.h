// Small things that the transport tests share: a layout, a sink over a ledger and a pool, and pushes with
// known bytes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "common/kv/kv_ledger.h"
#include "common/transport/kv_receiver.h"
#include "common/transport/kv_transport.h"

namespace lynx::testing_kv {

// 4 KB blocks.
inline PageLayout small_layout(std::uint32_t blocks) {
  return {.layers = 2,
          .blocks = blocks,
          .block_tokens = 16,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = KvDtype::kF32};
}

inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(count);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// A decode worker's receiving side in little.
class PoolSink final : public KvSink {
 public:
  PoolSink(const PageLayout& layout, const Clock& clock)
      : layout_(layout), clock_(clock), ledger(layout.blocks, 1), pool(layout.pool_bytes()) {}

  Result<std::span<std::byte>> write_begin(const KvPushHeader& h) override {
    if (Status ok = ledger.begin_write(h.lease, h.first_block, h.blocks, clock_.now()); !ok)
      return ok.error();
    ++begun;
    return std::span(pool).subspan(layout_.block_offset(h.layer, h.first_block),
                                   h.blocks * layout_.block_bytes());
  }
  void write_done(const KvPushHeader& h, Result<std::uint64_t> bytes) override {
    ++ended;
    ledger.end_write(h.lease.id);
    if (bytes.ok()) {
      landed += *bytes;
      if (h.first_token) first_token = h.first_token;
    } else {
      last_error = bytes.error();
    }
  }
  std::span<const std::byte> run(std::uint32_t layer, BlockId first, std::uint32_t count) const {
    return std::span(pool).subspan(layout_.block_offset(layer, first), count * layout_.block_bytes());
  }

 private:
  PageLayout layout_;
  const Clock& clock_;

 public:
  KvLedger ledger;
  std::vector<std::byte> pool;
  std::size_t begun = 0, ended = 0;
  std::uint64_t landed = 0;
  std::optional<SampledTokenData> first_token;
  std::optional<Error> last_error;
};

// Counts how each push ended.
struct Outcomes {
  std::size_t ok = 0, failed = 0;
  std::uint64_t bytes = 0;
  std::map<ErrorCode, std::size_t> by_code;
  std::optional<Error> last_error;

  KvTransport::Done recorder() {
    return [this](Result<std::uint64_t> result) {
      if (result.ok()) {
        ++ok;
        bytes += *result;
      } else {
        ++failed;
        ++by_code[result.error().code];
        last_error = result.error();
      }
    };
  }
  std::size_t total() const { return ok + failed; }
};

}  // namespace lynx::testing_kv
