#include "loadtest/stub/stub_worker.h"

#include <utility>

namespace lynx {
namespace {

constexpr float kLogprob = -0.5F;

}  // namespace

StubWorker::StubWorker(EventLoop& loop, StubFleet& fleet, std::uint16_t router_port, StubOptions options,
                       Hooks hooks)
    : loop_(loop),
      fleet_(fleet),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      links_(loop, {options_.role == proto::Role::PREFILL ? "prefill" : "decode", options_.secret},
             {{"127.0.0.1", router_port}},
             {[this](capnp::MallocMessageBuilder& message) { fill_register(message); },
              [this](std::uint64_t link, proto::Frame::Reader frame) { on_frame(link, frame); },
              [this](std::uint64_t) { send_heartbeat(); }, nullptr}),
      heartbeats_(loop.every(options_.heartbeat_period, [this] { send_heartbeat(); })) {
  if (options_.role == proto::Role::PREFILL) return;
  fleet_.decode[options_.name] = this;
  next_step_ = std::chrono::steady_clock::now();
  arm_step();
}

StubWorker::~StubWorker() {
  const auto at = fleet_.decode.find(options_.name);
  if (at != fleet_.decode.end() && at->second == this) fleet_.decode.erase(at);
}

void StubWorker::fill_register(capnp::MallocMessageBuilder& message) const {
  auto out = message.initRoot<proto::Frame>().initRegister();
  out.setWorker(options_.name.c_str());
  out.setIncarnation(options_.incarnation);
  out.setRole(options_.role);
  out.getFingerprint().setModel(options_.model_fingerprint);
  out.getFingerprint().setKvLayout(options_.kv_fingerprint);
  out.setModel(options_.model.c_str());
  out.setContextTokens(options_.context_tokens);
  out.setBlockTokens(options_.block_tokens);
  out.setTotalBlocks(options_.total_blocks);
  out.setMaxBatch(options_.max_batch);
}

void StubWorker::on_frame(std::uint64_t link, proto::Frame::Reader frame) {
  if (frozen_) return;
  if (frame.isReserve()) {
    on_reserve(link, frame.getReserve());
  } else if (frame.isPrefill()) {
    on_prefill(link, frame.getPrefill());
  } else if (frame.isCancel()) {
    held_.erase(frame.getCancel().getRequest());
    if (hooks_.on_cancel) hooks_.on_cancel(frame.getCancel().getRequest());
  }
}

StubWorker::Held& StubWorker::hold(std::uint64_t link, std::uint64_t request,
                                   proto::SamplingParams::Reader sampling, std::uint32_t generated) {
  ++served_;
  link_of_[request] = link;
  Held& held = held_[request];
  held.link = link;
  held.seed = sampling.getSeed();
  held.next_index = generated;
  held.max_tokens = sampling.getMaxTokens();
  held.receipt = sampling.getReceipt();
  held.top_logprobs = sampling.getLogprobs() ? sampling.getTopLogprobs() : 0;
  return held;
}

void StubWorker::on_reserve(std::uint64_t link, proto::Reserve::Reader reserve) {
  const std::uint64_t request = reserve.getRequest();
  hold(link, request, reserve.getSampling(), reserve.getGenerated());
  if (hooks_.on_reserve && hooks_.on_reserve(reserve)) return;
  capnp::MallocMessageBuilder message;
  auto reserved = message.initRoot<proto::Frame>().initReserved();
  reserved.setRequest(request);
  auto lease = reserved.initLease();
  lease.setId(request);
  lease.setDeadlineMs(reserve.getDeadlineMs());
  auto blocks = lease.initBlocks(reserve.getTokens().size() / options_.block_tokens + 1);
  for (unsigned i = 0; i < blocks.size(); ++i) blocks.set(i, i);
  send(request, message);
}

void StubWorker::on_prefill(std::uint64_t link, proto::Prefill::Reader prefill) {
  const std::uint64_t request = prefill.getRequest();
  Held& held = hold(link, request, prefill.getSampling(), prefill.getGenerated());
  if (hooks_.on_prefill && hooks_.on_prefill(prefill)) return;
  const std::string decode = prefill.getDecodeWorker().cStr();
  if (options_.prefill_time.count() == 0) return prefilled(request, decode);
  held.timer = loop_.after(options_.prefill_time, [this, request, decode] { prefilled(request, decode); });
}

void StubWorker::prefilled(std::uint64_t request, const std::string& decode_worker) {
  const auto node = held_.extract(request);
  const Held& held = node.mapped();
  const StubToken token = make_token(held);
  capnp::MallocMessageBuilder first;
  auto out = first.initRoot<proto::Frame>().initFirstToken();
  out.setRequest(request);
  fill_token(out.initToken(), held, token);
  send(request, first);

  const bool last = token.finish != proto::FinishReason::NONE;
  const auto decode = fleet_.decode.find(decode_worker);
  if (decode != fleet_.decode.end()) decode->second->handed_over(request, held.next_index + 1, last);
  capnp::MallocMessageBuilder done;
  auto handed = done.initRoot<proto::Frame>().initHandedOver();
  handed.setRequest(request);
  handed.setTransferSeconds(0.001F);
  send(request, done);
}

void StubWorker::handed_over(std::uint64_t request, std::uint32_t next_index, bool last) {
  const auto at = held_.find(request);
  if (at == held_.end()) return;
  if (last) {  // a decode worker generates nothing after it
    held_.erase(at);
    return;
  }
  at->second.next_index = next_index;
  at->second.decoding = true;
}

// Steps keep their phase: after a stall the missed ones are left out, and two workers do not fall into step.
void StubWorker::arm_step() {
  const auto now = std::chrono::steady_clock::now();
  const auto missed = (now - next_step_) / options_.step_time;
  next_step_ += (missed + 1) * options_.step_time;
  stepper_ = loop_.after(next_step_ - now, [this] {
    step();
    arm_step();
  });
}

// One token for every sequence of the batch, one frame per router.
void StubWorker::step() {
  if (frozen_) return;
  std::map<std::uint64_t, std::vector<std::uint64_t>> batch;  // by link
  for (auto& [request, held] : held_) {
    if (!held.decoding) continue;
    if (hooks_.on_token && hooks_.on_token(request, held.next_index)) continue;
    batch[held.link].push_back(request);
  }
  for (const auto& [link, requests] : batch) {
    capnp::MallocMessageBuilder message;
    auto tokens = message.initRoot<proto::Frame>().initTokens();
    tokens.setStep(++steps_);
    auto items = tokens.initItems(static_cast<unsigned>(requests.size()));
    for (unsigned i = 0; i < items.size(); ++i) {
      Held& held = held_.at(requests[i]);
      const StubToken token = make_token(held);
      items[i].setRequest(requests[i]);
      fill_token(items[i].initToken(), held, token);
      if (held.receipt && options_.receipt) {
        const StepReceipt told = options_.receipt(held.next_index);
        auto receipt = items[i].initReceipt();
        receipt.setAssignments(told.assignments);
        receipt.setRemapped(told.remapped);
        receipt.setRouterMass(told.router_mass);
        receipt.setBatch(told.batch);
      }
      ++held.next_index;
      if (token.finish != proto::FinishReason::NONE) held_.erase(requests[i]);
    }
    links_.send(link, message);
  }
}

StubToken StubWorker::make_token(const Held& held) const {
  StubToken token =
      options_.token ? options_.token(held.seed, held.next_index) : StubToken{held.next_index % 26, {}};
  const bool last = held.next_index + 1 == held.max_tokens;
  if (last && token.finish == proto::FinishReason::NONE) token.finish = proto::FinishReason::LENGTH;
  return token;
}

void StubWorker::fill_token(proto::SampledToken::Builder out, const Held& held,
                            const StubToken& token) const {
  out.setToken(token.id);
  out.setIndex(held.next_index);
  out.setFinish(token.finish);
  out.setLogprob(kLogprob);
  if (held.top_logprobs == 0) return;
  auto top = out.initTopLogprobs(held.top_logprobs);
  for (unsigned i = 0; i < top.size(); ++i) {
    top[i].setToken(token.id + i);
    top[i].setLogprob(kLogprob - static_cast<float>(i));
  }
}

void StubWorker::send(std::uint64_t request, capnp::MessageBuilder& message) {
  if (!frozen_) links_.send(link_of_.at(request), message);
}

void StubWorker::send_busy(std::uint64_t request, std::uint32_t retry_after_ms) {
  held_.erase(request);
  capnp::MallocMessageBuilder message;
  auto busy = message.initRoot<proto::Frame>().initBusy();
  busy.setRequest(request);
  busy.setRetryAfterMs(retry_after_ms);
  busy.setReason("the stub was told to be busy");
  send(request, message);
}

void StubWorker::send_ended(std::uint64_t request, proto::ErrorCode code, const std::string& text) {
  held_.erase(request);
  capnp::MallocMessageBuilder message;
  auto ended = message.initRoot<proto::Frame>().initEnded();
  ended.setRequest(request);
  ended.getFault().setCode(code);
  ended.getFault().setMessage(text.c_str());
  send(request, message);
}

void StubWorker::send_tokens(std::uint64_t request, std::uint32_t index, std::uint32_t token) {
  capnp::MallocMessageBuilder message;
  auto item = message.initRoot<proto::Frame>().initTokens().initItems(1)[0];
  item.setRequest(request);
  item.getToken().setToken(token);
  item.getToken().setIndex(index);
  send(request, message);
}

void StubWorker::send_heartbeat(bool draining) {
  if (frozen_) return;
  capnp::MallocMessageBuilder message;
  auto beat = message.initRoot<proto::Frame>().initHeartbeat();
  beat.setFreeBlocks(options_.total_blocks);
  beat.setRunning(static_cast<std::uint32_t>(held_.size()));
  beat.setDraining(draining);
  beat.setRoutedExperts(options_.routed_experts);
  beat.setActivatedExperts(options_.activated_experts);
  links_.broadcast(message);
}

void StubWorker::freeze() { frozen_ = true; }

}  // namespace lynx
