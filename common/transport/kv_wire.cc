#include "common/transport/kv_wire.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>
#include <string>

#include "proto/kv.capnp.h"

namespace lynx::kv_wire {

namespace {

Words flat(capnp::MessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  Words out(words.size());
  std::memcpy(out.data(), words.begin(), words.asBytes().size());
  return out;
}

// Copies to aligned words (headers arrive at any address) and reads the root as T. Cap'n Proto throws on what
// is malformed; fields are bounds-checked when they are read, so read() runs under the same guard.
template <typename T, typename Read>
auto decode(std::span<const std::byte> bytes, const char* what, Read read)
    -> decltype(read(typename T::Reader())) {
  if (bytes.size() % sizeof(capnp::word) != 0)
    return {ErrorCode::kCorrupt,
            std::string(what) + ": " + std::to_string(bytes.size()) + " bytes are no whole words"};
  Words words(bytes.size() / sizeof(capnp::word));
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  try {
    const kj::ArrayPtr<const capnp::word> array(reinterpret_cast<const capnp::word*>(words.data()),
                                                words.size());
    capnp::FlatArrayMessageReader reader(array);
    return read(reader.getRoot<T>());
  } catch (const kj::Exception& e) {
    return {ErrorCode::kCorrupt, std::string(what) + ": " + e.getDescription().cStr()};
  } catch (const std::exception& e) {
    return {ErrorCode::kCorrupt, std::string(what) + ": " + e.what()};
  }
}

void write_token(const SampledTokenData& token, proto::SampledToken::Builder out) {
  out.setToken(token.token);
  out.setIndex(token.index);
  out.setFinish(static_cast<proto::FinishReason>(token.finish));
  out.setLogprob(token.logprob);
  auto top = out.initTopLogprobs(static_cast<unsigned>(token.top_logprobs.size()));
  for (unsigned i = 0; i < top.size(); ++i) {
    top[i].setToken(token.top_logprobs[i].first);
    top[i].setLogprob(token.top_logprobs[i].second);
  }
}

Status read_token(SampledTokenData& token, proto::SampledToken::Reader in) {
  token.token = in.getToken();
  token.index = in.getIndex();
  if (in.getFinish() > proto::FinishReason::LENGTH)
    return {ErrorCode::kCorrupt, "KvPush.firstToken.finish: unknown value"};
  token.finish = static_cast<std::uint8_t>(in.getFinish());
  token.logprob = in.getLogprob();
  for (const auto top : in.getTopLogprobs())
    token.top_logprobs.emplace_back(top.getToken(), top.getLogprob());
  return {};
}

Result<Push> read_push(proto::KvPush::Reader in) {
  Push push;
  push.push_id = in.getPushId();
  push.incarnation = in.getIncarnation();
  push.checksum = in.getChecksum();
  push.read_before = in.getReadBefore();
  push.host = in.getHost();
  KvPushHeader& header = push.header;
  header.lease = {in.getLease(), in.getGeneration(), in.getKey()};
  header.kv_layout = in.getKvLayout();
  header.layer = in.getLayer();
  header.first_block = in.getFirstBlock();
  header.blocks = in.getBlocks();
  if (in.getLast()) {
    SampledTokenData& token = header.first_token.emplace();
    if (Status status = read_token(token, in.getFirstToken()); !status) return status.error();
  }
  return push;
}

Result<Ack> read_ack(proto::KvAck::Reader in) {
  Ack ack;
  ack.push_id = in.getPushId();
  if (in.getOk()) return ack;
  const auto fault = in.getFault();
  if (fault.getCode() > proto::ErrorCode::INTERNAL)
    return {ErrorCode::kCorrupt, "KvAck.fault.code: unknown value"};
  const auto message = fault.getMessage();
  ack.verdict = Error{static_cast<ErrorCode>(fault.getCode()), std::string(message.begin(), message.end())};
  return ack;
}

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0x9fb21c651e98df25ULL;
  return value ^ (value >> 29);
}

}  // namespace

Words encode(const Push& push) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::KvPush>();
  const KvPushHeader& header = push.header;
  out.setPushId(push.push_id);
  out.setLease(header.lease.id);
  out.setGeneration(header.lease.generation);
  out.setKey(header.lease.key);
  out.setIncarnation(push.incarnation);
  out.setKvLayout(header.kv_layout);
  out.setLayer(header.layer);
  out.setFirstBlock(header.first_block);
  out.setBlocks(header.blocks);
  out.setChecksum(push.checksum);
  out.setReadBefore(push.read_before);
  out.setHost(push.host);
  out.setLast(header.first_token.has_value());
  if (header.first_token) write_token(*header.first_token, out.initFirstToken());
  return flat(message);
}

Result<Push> decode_push(std::span<const std::byte> bytes) {
  return decode<proto::KvPush>(bytes, "KV push header", read_push);
}

Words encode(const Ack& ack) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::KvAck>();
  out.setPushId(ack.push_id);
  out.setOk(ack.verdict.ok());
  if (!ack.verdict) {
    auto fault = out.initFault();
    fault.setCode(static_cast<proto::ErrorCode>(ack.verdict.error().code));
    fault.setMessage(ack.verdict.error().message.c_str());
  }
  return flat(message);
}

Result<Ack> decode_ack(std::span<const std::byte> bytes) {
  return decode<proto::KvAck>(bytes, "KV acknowledgement", read_ack);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  // Four independent lanes of 8-byte words, so that it runs near memory speed.
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  std::size_t at = 0;
  for (; at + sizeof(lanes) <= bytes.size(); at += sizeof(lanes)) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (int i = 0; i < 4; ++i) lanes[i] = (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15ULL;
  }
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = mix(hash ^ lane) * 0x9e3779b97f4a7c15ULL;
  for (; at < bytes.size(); ++at) hash = mix(hash ^ std::to_integer<std::uint64_t>(bytes[at])) + at;
  hash = mix(hash);
  return hash == 0 ? 1 : hash;
}

}  // namespace lynx::kv_wire
