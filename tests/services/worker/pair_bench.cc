#include "tests/services/worker/pair_bench.h"

#include <algorithm>

#include "services/engine/monolith.h"

namespace lynx::testing {
namespace {

EngineConfig engine_config(const BatchLimits& limits, bool report_layers) {
  EngineConfig config;
  config.limits = limits;
  config.report_layers = report_layers;
  return config;
}

template <typename Builder>
void fill_request(Builder out, const Ask& ask) {
  out.setRequest(ask.wire.request);
  auto tokens = out.initTokens(static_cast<unsigned>(ask.tokens.size()));
  for (unsigned i = 0; i < tokens.size(); ++i) tokens.set(i, ask.tokens[i]);
  out.setGenerated(ask.generated);
  auto sampling = out.initSampling();
  sampling.setTemperature(ask.sampling.temperature);
  sampling.setTopP(ask.sampling.top_p);
  sampling.setSeed(ask.sampling.seed);
  sampling.setMaxTokens(ask.sampling.max_tokens);
  sampling.setMinTokens(ask.sampling.min_tokens);
  sampling.setIgnoreEos(ask.sampling.ignore_eos);
  out.setDeadlineMs(ask.deadline_ms);
}

void hear(WorkerService& service, LinkId link, capnp::MallocMessageBuilder& message) {
  service.on_frame(link, message.getRoot<proto::Frame>().asReader());
}

}  // namespace

WorkerBench::WorkerBench(const EngineConfig& config, std::uint32_t blocks, const FakeModelOptions& options,
                         const Clock& clock, const std::string& service)
    : model(options),
      cache(FakeModel::layout(blocks, options)),
      ledger(blocks, 1),
      metrics(registry, service),
      engine_metrics(registry),
      core(config, model, cache, clock, engine_metrics,
           [this](EngineEvent event) { events.push_back(std::move(event)); }) {}

WorkerParts WorkerBench::parts(const Clock& clock) {
  return {model.config(), cache, ledger, clock, port, metrics, [this](EngineCommand command) {
            core.apply(std::move(command));
            return true;
          }};
}

void WorkerBench::turn(WorkerService& service) {
  if (!core.idle()) core.step();
  while (!events.empty()) {
    EngineEvent event = std::move(events.front());
    events.pop_front();
    if (const auto* layer = std::get_if<LayerDone>(&event)) service.on_layer(*layer);
    if (auto* step = std::get_if<StepDone>(&event)) service.on_step(std::move(*step));
  }
  service.on_tick();
}

PairBench::PairBench(const PairOptions& options)
    : prefill_side(engine_config(options.prefill_limits, true), options.prefill_blocks, options.model, clock,
                   "prefill"),
      decode_side(engine_config(options.decode_limits, false), options.decode_blocks, options.model, clock,
                  "decode"),
      prefill_metrics(prefill_side.registry),
      decode_service(options.decode, decode_side.parts(clock), decode_side.registry),
      decode_transport(std::make_unique<LoopbackTransport>(
          network, clock, KvReceiver{&decode_service, decode_side.cache.layout(), kIncarnation})),
      prefill_transport(network, clock),
      prefill_service(options.prefill, prefill_side.parts(clock), prefill_transport, prefill_metrics) {}

PairBench::~PairBench() = default;

void PairBench::reserve(const Ask& ask) {
  capnp::MallocMessageBuilder message;
  fill_request(message.initRoot<proto::Frame>().initReserve(), ask);
  hear(decode_service, ask.wire.link, message);
}

void PairBench::prefill(const Ask& ask, const HeardLease& heard) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initPrefill();
  fill_request(out, ask);
  auto lease = out.initLease();
  lease.setId(heard.ticket.id);
  lease.setGeneration(heard.ticket.generation);
  lease.setKey(heard.ticket.key);
  lease.setDeadlineMs(heard.deadline_ms);
  auto blocks = lease.initBlocks(static_cast<unsigned>(heard.blocks.size()));
  for (unsigned i = 0; i < blocks.size(); ++i) blocks.set(i, heard.blocks[i]);
  out.setCountExperts(ask.count_experts);
  out.setCacheSalt(ask.cache_salt);
  out.setDecodeWorker("decode-0");
  out.setDecodeIncarnation(kIncarnation);
  const std::string address = decode_transport ? decode_transport->address() : "nowhere";
  out.setKvAddress({reinterpret_cast<const capnp::byte*>(address.data()), address.size()});
  hear(prefill_service, ask.wire.link, message);
}

void PairBench::start(const Ask& ask) {
  const std::size_t before = decode_side.port.leases.size();
  reserve(ask);
  if (decode_side.port.leases.size() > before) prefill(ask, decode_side.port.leases.back());
}

void PairBench::cancel(WorkerService& side, const WireId& wire) {
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initCancel().setRequest(wire.request);
  hear(side, wire.link, message);
}

void PairBench::gone(LinkId link, std::uint64_t incarnation) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<proto::Frame>().initGone();
  out.setWorker("decode-0");
  out.setIncarnation(incarnation);
  hear(prefill_service, link, message);
}

void PairBench::turn() {
  prefill_side.turn(prefill_service);
  prefill_transport.progress();
  decode_side.turn(decode_service);
}

void PairBench::run(int turns) {
  for (int i = 0; i < turns && !idle(); ++i) turn();
}

std::vector<TokenId> PairBench::generated(const WireId& wire) const {
  std::vector<TokenId> out;
  for (const auto* heard : {&prefill_side.port.first_tokens, &decode_side.port.tokens})
    for (const HeardToken& token : *heard)
      if (token.wire == wire) out.push_back(token.token);
  return out;
}

std::vector<TokenId> generated_alone(const Ask& ask, const FakeModelOptions& options) {
  FakeModel model(options);
  KvCache cache(FakeModel::layout(128, options));
  const MonolithRequest request{ask.tokens, ask.sampling};
  const std::vector<MonolithOutput> outputs = run_monolith(model, cache, {}, std::span(&request, 1));
  std::vector<TokenId> out;
  for (const SampledTokenData& token : outputs[0].tokens) out.push_back(token.token);
  return out;
}

}  // namespace lynx::testing
