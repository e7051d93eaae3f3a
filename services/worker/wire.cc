#include "services/worker/wire.h"

#include <kj/exception.h>

#include <algorithm>

namespace lynx::wire {
namespace {

// Cap'n Proto's list iterators are too weak for vector::assign.
std::vector<std::uint32_t> numbers(capnp::List<std::uint32_t>::Reader in) {
  std::vector<std::uint32_t> out;
  out.reserve(in.size());
  for (const std::uint32_t value : in) out.push_back(value);
  return out;
}

template <typename Read>
auto guarded(const char* what, Read read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const kj::Exception& e) {
    return {ErrorCode::kCorrupt, std::string(what) + " frame: " + e.getDescription().cStr()};
  }
}

SamplingParams read_sampling(proto::SamplingParams::Reader in) {
  SamplingParams out;
  out.temperature = in.getTemperature();
  out.top_k = in.getTopK();
  out.top_p = in.getTopP();
  out.min_p = in.getMinP();
  out.repetition_penalty = in.getRepetitionPenalty();
  out.presence_penalty = in.getPresencePenalty();
  out.frequency_penalty = in.getFrequencyPenalty();
  out.seed = in.getSeed();
  for (const auto bias : in.getLogitBias()) out.logit_bias.emplace_back(bias.getToken(), bias.getBias());
  out.min_tokens = in.getMinTokens();
  out.max_tokens = in.getMaxTokens();
  out.ignore_eos = in.getIgnoreEos();
  out.logprobs = in.getLogprobs();
  out.top_logprobs = in.getTopLogprobs();
  out.exact = in.getExact();
  out.receipt = in.getReceipt();
  return out;
}

template <typename Reader>
Request read_request(Reader in) {
  Request out;
  out.request = in.getRequest();
  out.tokens = numbers(in.getTokens());
  out.generated = in.getGenerated();
  out.sampling = read_sampling(in.getSampling());
  out.deadline = std::chrono::milliseconds(in.getDeadlineMs());
  out.slo_class = in.getSloClass().cStr();
  return out;
}

void fill_token(proto::SampledToken::Builder out, const SampledTokenData& token) {
  out.setToken(token.token);
  out.setIndex(token.index);
  out.setFinish(static_cast<proto::FinishReason>(token.finish));
  out.setLogprob(token.logprob);
  if (token.top_logprobs.empty()) return;
  auto top = out.initTopLogprobs(static_cast<unsigned>(token.top_logprobs.size()));
  for (unsigned i = 0; i < top.size(); ++i) {
    top[i].setToken(token.top_logprobs[i].first);
    top[i].setLogprob(token.top_logprobs[i].second);
  }
}

void fill_receipt(proto::StepReceipt::Builder out, const StepReceipt& receipt) {
  out.setAssignments(receipt.assignments);
  out.setRemapped(receipt.remapped);
  out.setRouterMass(receipt.router_mass);
  out.setBatch(receipt.batch);
}

std::uint32_t milliseconds_until(Clock::time_point deadline, Clock::time_point now) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, 0xFFFFFFFF));
}

capnp::Data::Reader bytes_of(const std::string& text) {
  return {reinterpret_cast<const capnp::byte*>(text.data()), text.size()};
}

}  // namespace

Result<Request> read_reserve(proto::Reserve::Reader in) {
  return guarded("Reserve", [&] { return read_request(in); });
}

Result<PrefillRequest> read_prefill(proto::Prefill::Reader in) {
  return guarded("Prefill", [&] {
    PrefillRequest out;
    out.head = read_request(in);
    const auto lease = in.getLease();
    out.lease = {lease.getId(), lease.getGeneration(), lease.getKey()};
    out.lease_deadline = std::chrono::milliseconds(lease.getDeadlineMs());
    out.lease_blocks = numbers(lease.getBlocks());
    const auto address = in.getKvAddress();
    out.decode = {in.getDecodeWorker().cStr(), in.getDecodeIncarnation(),
                  std::string(address.begin(), address.end())};
    out.count_experts = in.getCountExperts();
    out.cache_salt = in.getCacheSalt();
    return out;
  });
}

void write_register(capnp::MessageBuilder& message, const Hardware& hardware) {
  auto out = message.initRoot<proto::Frame>().initRegister();
  out.setWorker(hardware.worker);
  out.setIncarnation(hardware.incarnation);
  out.setRole(hardware.role);
  out.getFingerprint().setModel(hardware.model_fingerprint);
  out.getFingerprint().setKvLayout(hardware.layout_fingerprint);
  out.setModel(hardware.model);
  out.setContextTokens(hardware.context_tokens);
  out.setBlockTokens(hardware.block_tokens);
  out.setTotalBlocks(hardware.total_blocks);
  out.setMaxBatch(hardware.max_batch);
  out.setKvAddress(bytes_of(hardware.kv_address));
  out.setMetricsAddress(hardware.metrics_address);
}

void write_heartbeat(capnp::MessageBuilder& message, const Load& load) {
  auto out = message.initRoot<proto::Frame>().initHeartbeat();
  out.setFreeBlocks(load.free_blocks);
  out.setRunning(load.running);
  out.setWaiting(load.waiting);
  out.setDraining(load.draining);
  out.setStepSeconds(load.step_seconds);
  out.setTransport(load.transport);
  out.setRoutedExperts(load.experts.routed);
  out.setActivatedExperts(load.experts.activated);
}

void write_reserved(capnp::MessageBuilder& message, std::uint64_t request, const LeaseView& lease,
                    Clock::time_point now) {
  auto out = message.initRoot<proto::Frame>().initReserved();
  out.setRequest(request);
  auto to = out.initLease();
  to.setId(lease.ticket.id);
  to.setGeneration(lease.ticket.generation);
  to.setKey(lease.ticket.key);
  to.setDeadlineMs(milliseconds_until(lease.deadline, now));
  auto blocks = to.initBlocks(lease.prompt_blocks);
  for (unsigned i = 0; i < blocks.size(); ++i) blocks.set(i, lease.blocks[i]);
}

void write_busy(capnp::MessageBuilder& message, std::uint64_t request, std::chrono::milliseconds retry_after,
                const std::string& reason) {
  auto out = message.initRoot<proto::Frame>().initBusy();
  out.setRequest(request);
  out.setRetryAfterMs(static_cast<std::uint32_t>(retry_after.count()));
  out.setReason(reason);
}

void write_ended(capnp::MessageBuilder& message, std::uint64_t request, const Error& error, FaultOf of) {
  auto out = message.initRoot<proto::Frame>().initEnded();
  out.setRequest(request);
  out.getFault().setCode(static_cast<proto::ErrorCode>(error.code));
  out.getFault().setMessage(error.message);
  out.setTransfer(of == FaultOf::kTransfer);
}

void write_first_token(capnp::MessageBuilder& message, const FirstToken& first) {
  auto out = message.initRoot<proto::Frame>().initFirstToken();
  out.setRequest(first.request);
  fill_token(out.initToken(), first.token);
  out.setQueueSeconds(static_cast<float>(first.queue_seconds));
  out.setComputeSeconds(static_cast<float>(first.compute_seconds));
}

void write_handed_over(capnp::MessageBuilder& message, const HandedOver& done) {
  auto out = message.initRoot<proto::Frame>().initHandedOver();
  out.setRequest(done.request);
  out.setBytes(done.bytes);
  out.setTransferSeconds(static_cast<float>(done.transfer_seconds));
  out.setExposedSeconds(static_cast<float>(done.exposed_seconds));
  out.setTransport(done.transport);
  if (!done.expert_shares.empty())
    out.setExpertShares(capnp::Data::Reader(done.expert_shares.data(), done.expert_shares.size()));
}

void write_tokens(capnp::MessageBuilder& message, std::uint64_t step, const std::vector<TokenItem>& items) {
  auto out = message.initRoot<proto::Frame>().initTokens();
  out.setStep(step);
  auto list = out.initItems(static_cast<unsigned>(items.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setRequest(items[i].request);
    fill_token(list[i].initToken(), *items[i].token);
    if (items[i].receipt != nullptr) fill_receipt(list[i].initReceipt(), *items[i].receipt);
  }
}

}  // namespace lynx::wire
