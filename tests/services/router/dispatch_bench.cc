#include "tests/services/router/dispatch_bench.h"

#include <algorithm>
#include <sstream>

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

proto::FinishReason wire(TokenFinish finish) {
  switch (finish) {
    case TokenFinish::kNone:
      return proto::FinishReason::NONE;
    case TokenFinish::kStop:
      return proto::FinishReason::STOP;
    case TokenFinish::kLength:
      return proto::FinishReason::LENGTH;
  }
  return proto::FinishReason::NONE;
}

template <typename Reader>
void read_attempt(Reader in, SentFrame& out) {
  out.request = in.getRequest();
  out.generated = in.getGenerated();
  out.max_tokens = in.getSampling().getMaxTokens();
  for (const auto token : in.getTokens()) out.tokens.push_back(token);
}

}  // namespace

bool RecordingSender::send(WorkerId worker, capnp::MessageBuilder& message) {
  if (std::find(down.begin(), down.end(), worker) != down.end()) return false;
  const auto frame = message.getRoot<proto::Frame>().asReader();
  SentFrame out;
  out.to = worker;
  if (frame.isReserve()) {
    out.kind = Sent::kReserve;
    read_attempt(frame.getReserve(), out);
  } else if (frame.isPrefill()) {
    out.kind = Sent::kPrefill;
    read_attempt(frame.getPrefill(), out);
    out.count_experts = frame.getPrefill().getCountExperts();
  } else if (frame.isGone()) {
    out.kind = Sent::kGone;
    out.gone = std::string(frame.getGone().getWorker().cStr()) + "/" +
               std::to_string(frame.getGone().getIncarnation());
  } else {
    out.request = frame.getCancel().getRequest();
  }
  frames.push_back(std::move(out));
  return true;
}

bool Client::on_token(std::uint32_t, const GeneratedToken& token) {
  tokens.push_back(token.id);
  finish = token.finish;
  if (on_each_token) on_each_token();
  return stop_at == token.id;
}

DispatchBench::DispatchBench(DispatchConfig config)
    : classes{{"standard", milliseconds(500), milliseconds(50), milliseconds(10'000), milliseconds(2000), 8},
              {"batch", milliseconds(5000), milliseconds(50), milliseconds(60'000), milliseconds(20'000),
               64}},
      metrics(registry, classes, "least_loaded"),
      dispatcher(config, classes, clock, sender, metrics, kFirstRequest) {
  clock.advance(std::chrono::hours(1));
}

WorkerId DispatchBench::add_worker(WorkerRole role, const std::string& name, Fingerprint fingerprint,
                                   std::uint32_t context) {
  WorkerInfo info;
  info.name = name;
  info.incarnation = 1;
  info.role = role;
  info.fingerprint = fingerprint;
  info.context_tokens = context;
  info.block_tokens = 16;
  info.total_blocks = 4096;
  info.max_batch = 16;
  EXPECT_TRUE(dispatcher.check_worker(info).ok());
  const WorkerId id = next_worker_++;
  dispatcher.worker_up(id, std::move(info));
  return workers[name] = id;
}

void DispatchBench::add_pair() {
  add_worker(WorkerRole::kPrefill, "p");
  add_worker(WorkerRole::kDecode, "d");
}

DispatchBench::Submitted DispatchBench::submit(std::uint32_t max_tokens, std::size_t slo_class,
                                               std::vector<TokenId> prompt) {
  SequenceSpec spec;
  spec.prompt = std::move(prompt);
  spec.sampling.max_tokens = max_tokens;
  spec.slo_class = slo_class;
  spec.arrival = clock.now();
  spec.deadline = clock.now() + classes[slo_class].deadline;
  auto client = std::make_shared<Client>();
  const auto flow = dispatcher.submit(std::move(spec), 0, client);
  return {flow, client};
}

void DispatchBench::advance(milliseconds by) {
  constexpr milliseconds kStep{50};
  for (; by.count() > 0; by -= kStep) {
    clock.advance(std::min(by, kStep));
    dispatcher.tick();
  }
}

void DispatchBench::reserved(const SentFrame& reserve) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initReserved();
  out.setRequest(reserve.request);
  out.initLease().setId(reserve.request);
  dispatcher.on_frame(reserve.to, message.getRoot<proto::Frame>());
}

void DispatchBench::busy(const SentFrame& frame, std::uint32_t retry_after_ms) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initBusy();
  out.setRequest(frame.request);
  out.setRetryAfterMs(retry_after_ms);
  dispatcher.on_frame(frame.to, message.getRoot<proto::Frame>());
}

void DispatchBench::ended(const SentFrame& frame, ErrorCode code, bool transfer) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initEnded();
  out.setRequest(frame.request);
  out.getFault().setCode(static_cast<proto::ErrorCode>(code));
  out.getFault().setMessage("the test says so");
  out.setTransfer(transfer);
  dispatcher.on_frame(frame.to, message.getRoot<proto::Frame>());
}

void DispatchBench::first_token(const SentFrame& prefill, TokenId token, std::uint32_t index,
                                TokenFinish finish) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initFirstToken();
  out.setRequest(prefill.request);
  out.getToken().setToken(token);
  out.getToken().setIndex(index);
  out.getToken().setFinish(wire(finish));
  dispatcher.on_frame(prefill.to, message.getRoot<proto::Frame>());
}

void DispatchBench::handed_over(const SentFrame& prefill, const ExpertProfile& experts) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initHandedOver();
  out.setRequest(prefill.request);
  out.setExpertShares(capnp::Data::Reader(experts.data(), experts.size()));
  dispatcher.on_frame(prefill.to, message.getRoot<proto::Frame>());
}

void DispatchBench::token(const SentFrame& reserve, TokenId token, std::uint32_t index, TokenFinish finish) {
  capnp::MallocMessageBuilder message;
  auto item = message.initRoot<proto::Frame>().initTokens().initItems(1)[0];
  item.setRequest(reserve.request);
  item.getToken().setToken(token);
  item.getToken().setIndex(index);
  item.getToken().setFinish(wire(finish));
  dispatcher.on_frame(reserve.to, message.getRoot<proto::Frame>());
}

void DispatchBench::heartbeat(WorkerId worker, bool draining) {
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initHeartbeat().setDraining(draining);
  dispatcher.on_frame(worker, message.getRoot<proto::Frame>());
}

SentFrame DispatchBench::take(Sent kind) {
  const auto at = std::find_if(sender.frames.rbegin(), sender.frames.rend(),
                               [&](const SentFrame& frame) { return frame.kind == kind; });
  EXPECT_NE(at, sender.frames.rend()) << "no such frame was sent";
  if (at == sender.frames.rend()) return {};
  SentFrame frame = *at;
  sender.frames.erase(std::next(at).base());
  return frame;
}

std::size_t DispatchBench::count(Sent kind) const {
  return static_cast<std::size_t>(std::count_if(sender.frames.begin(), sender.frames.end(),
                                                [&](const SentFrame& frame) { return frame.kind == kind; }));
}

DispatchBench::Attempt DispatchBench::attempt() {
  Attempt out;
  out.reserve = take(Sent::kReserve);
  reserved(out.reserve);
  out.prefill = take(Sent::kPrefill);
  return out;
}

bool DispatchBench::all_released() const {
  const auto& all = dispatcher.workers().all();
  return std::all_of(all.begin(), all.end(), [](const auto& entry) {
    return entry.second.requests == 0 && entry.second.tokens == 0;
  });
}

double DispatchBench::metric(const std::string& line) const {
  std::istringstream text(registry.serialize());
  for (std::string at; std::getline(text, at);)
    if (at.starts_with(line + " ")) return std::stod(at.substr(line.size()));
  return -1;
}

}  // namespace lynx::testing
