#include "services/router/worker_messages.h"

#include <algorithm>

namespace lynx {
namespace {

void fill_sampling(proto::SamplingParams::Builder out, const SamplingSettings& in) {
  out.setTemperature(in.temperature);
  out.setTopK(in.top_k);
  out.setTopP(in.top_p);
  out.setMinP(in.min_p);
  out.setRepetitionPenalty(in.repetition_penalty);
  out.setPresencePenalty(in.presence_penalty);
  out.setFrequencyPenalty(in.frequency_penalty);
  out.setSeed(in.seed);
  auto bias = out.initLogitBias(static_cast<unsigned>(in.logit_bias.size()));
  for (unsigned i = 0; i < bias.size(); ++i) {
    bias[i].setToken(in.logit_bias[i].first);
    bias[i].setBias(in.logit_bias[i].second);
  }
  out.setMinTokens(in.min_tokens);
  out.setMaxTokens(in.max_tokens);
  out.setIgnoreEos(in.ignore_eos);
  out.setTopLogprobs(in.top_logprobs);
  out.setLogprobs(in.logprobs);
  out.setExact(in.exact);
  out.setReceipt(in.receipt);
}

void fill_tokens(capnp::List<std::uint32_t>::Builder out, const AttemptHead& head) {
  unsigned at = 0;
  for (const TokenId token : head.spec.prompt) out.set(at++, token);
  for (const TokenId token : head.generated) out.set(at++, token);
}

// Reserve and Prefill name these fields alike.
template <typename Builder>
void fill_head(Builder out, const AttemptHead& head) {
  out.setRequest(head.request);
  fill_tokens(out.initTokens(static_cast<unsigned>(head.spec.prompt.size() + head.generated.size())), head);
  out.setGenerated(static_cast<std::uint32_t>(head.generated.size()));
  fill_sampling(out.initSampling(), head.spec.sampling);
  out.setDeadlineMs(static_cast<std::uint32_t>(std::max<std::int64_t>(head.remaining.count(), 1)));
  out.setSloClass(head.slo_class.c_str());
}

TokenFinish read_finish(proto::FinishReason reason) {
  switch (reason) {
    case proto::FinishReason::NONE:
      return TokenFinish::kNone;
    case proto::FinishReason::STOP:
      return TokenFinish::kStop;
    case proto::FinishReason::LENGTH:
      return TokenFinish::kLength;
  }
  return TokenFinish::kStop;  // a reason of a later version ends the sequence too
}

}  // namespace

void write_reserve(capnp::MessageBuilder& message, const AttemptHead& head) {
  fill_head(message.initRoot<proto::Frame>().initReserve(), head);
}

void write_prefill(capnp::MessageBuilder& message, const AttemptHead& head, proto::Lease::Reader lease,
                   const WorkerInfo& decode, bool count_experts) {
  auto prefill = message.initRoot<proto::Frame>().initPrefill();
  fill_head(prefill, head);
  prefill.setLease(lease);
  prefill.setDecodeWorker(decode.name.c_str());
  prefill.setCountExperts(count_experts);
  prefill.setCacheSalt(head.spec.cache_salt);
  prefill.setDecodeIncarnation(decode.incarnation);
  prefill.setKvAddress(capnp::Data::Reader(decode.kv_address.data(), decode.kv_address.size()));
}

void write_cancel(capnp::MessageBuilder& message, std::uint64_t request) {
  message.initRoot<proto::Frame>().initCancel().setRequest(request);
}

void write_gone(capnp::MessageBuilder& message, const WorkerInfo& decode) {
  auto gone = message.initRoot<proto::Frame>().initGone();
  gone.setWorker(decode.name.c_str());
  gone.setIncarnation(decode.incarnation);
}

WorkerInfo read_register(proto::Register::Reader in) {
  WorkerInfo out;
  out.name = in.getWorker().cStr();
  out.incarnation = in.getIncarnation();
  out.role = in.getRole() == proto::Role::PREFILL ? WorkerRole::kPrefill : WorkerRole::kDecode;
  out.fingerprint = {in.getFingerprint().getModel(), in.getFingerprint().getKvLayout()};
  out.model = in.getModel().cStr();
  out.context_tokens = in.getContextTokens();
  out.block_tokens = in.getBlockTokens();
  out.total_blocks = in.getTotalBlocks();
  out.max_batch = in.getMaxBatch();
  out.kv_address.assign(in.getKvAddress().begin(), in.getKvAddress().end());
  out.metrics_address = in.getMetricsAddress().cStr();
  return out;
}

WorkerHealth read_heartbeat(proto::Heartbeat::Reader in) {
  return {in.getFreeBlocks(),  in.getRunning(),          in.getWaiting(),       in.getDraining(),
          in.getStepSeconds(), in.getTransport().cStr(), in.getRoutedExperts(), in.getActivatedExperts()};
}

GeneratedToken read_token(proto::SampledToken::Reader in) {
  GeneratedToken out{in.getToken(), in.getIndex(), read_finish(in.getFinish()), in.getLogprob(), {}, {}};
  const auto top = in.getTopLogprobs();
  out.top.reserve(top.size());
  for (const auto entry : top) out.top.push_back({entry.getToken(), entry.getLogprob()});
  return out;
}

GeneratedToken read_item(proto::Tokens::Item::Reader in) {
  GeneratedToken out = read_token(in.getToken());
  if (!in.hasReceipt()) return out;
  const auto told = in.getReceipt();
  const StepReceipt receipt{told.getAssignments(), told.getRemapped(), told.getRouterMass(), told.getBatch()};
  const bool sound = receipt.remapped <= receipt.assignments && receipt.router_mass >= 0 &&
                     receipt.router_mass <= 1 && receipt.batch > 0;
  if (sound) out.receipt = receipt;
  return out;
}

WorkerFault read_ended(proto::Ended::Reader ended) {
  const auto in = ended.getFault();
  const auto code = static_cast<std::uint16_t>(in.getCode());  // the two enums have one order
  const bool known = code <= static_cast<std::uint16_t>(ErrorCode::kInternal);
  return {{known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal, in.getMessage().cStr()},
          ended.getTransfer()};
}

}  // namespace lynx
