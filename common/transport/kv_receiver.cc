#include "common/transport/kv_receiver.h"

#include <string>

namespace lynx {

namespace {

Status check_header(const KvReceiver& receiver, const KvPushHeader& header, std::uint64_t incarnation,
                    std::size_t payload) {
  const PageLayout& layout = receiver.layout;
  if (incarnation != receiver.incarnation) {
    return {ErrorCode::kUnavailable, "this worker restarted: the push is for incarnation " +
                                         std::to_string(incarnation) + ", this is " +
                                         std::to_string(receiver.incarnation)};
  }
  if (header.kv_layout != layout.fingerprint()) {
    return {ErrorCode::kIncompatible,
            "KV layouts differ: the sender's fingerprint is " + std::to_string(header.kv_layout) +
                ", here it is " + std::to_string(layout.fingerprint()) + " (" + layout.describe() + ")"};
  }
  if (header.layer >= layout.layers) {
    return {ErrorCode::kInvalidArgument,
            "layer " + std::to_string(header.layer) + " of " + std::to_string(layout.layers)};
  }
  if (header.blocks == 0 || header.blocks > layout.blocks ||
      header.first_block > layout.blocks - header.blocks) {
    return {ErrorCode::kInvalidArgument, "blocks " + std::to_string(header.first_block) + "+" +
                                             std::to_string(header.blocks) + " of " +
                                             std::to_string(layout.blocks)};
  }
  if (payload != header.blocks * layout.block_bytes()) {
    return {ErrorCode::kCorrupt, std::to_string(payload) + " bytes came for " +
                                     std::to_string(header.blocks) + " blocks of " +
                                     std::to_string(layout.block_bytes())};
  }
  return {};
}

}  // namespace

Result<std::span<std::byte>> admit_push(const KvReceiver& receiver, const KvPushHeader& header,
                                        std::uint64_t incarnation, std::size_t payload) {
  if (Status checked = check_header(receiver, header, incarnation, payload); !checked) return checked.error();
  auto place = receiver.sink->write_begin(header);
  if (place.ok() && place->size() != payload) {
    Error error{ErrorCode::kInternal,
                "the sink gave " + std::to_string(place->size()) + " bytes for " + std::to_string(payload)};
    receiver.sink->write_done(header, error);
    return error;
  }
  return place;
}

}  // namespace lynx
