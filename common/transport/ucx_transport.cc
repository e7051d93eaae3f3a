#include "common/transport/ucx_transport.h"

#include <stdexcept>

#include "common/core/log.h"
#include "common/transport/ucx_handles.h"
#include "common/transport/ucx_receiver.h"
#include "common/transport/ucx_sender.h"

namespace lynx {

namespace {

constexpr int kRoundsPerProgress = 64;  // the IO thread has other work, too
constexpr auto kGoodbye = std::chrono::seconds(1);

}  // namespace

// The worker dies before the sender and the receiver: its last callbacks go to their records.
struct UcxTransport::Parts {
  Parts(const UcxConfig& c, const Clock& k, KvMemory memory)
      : config(c), clock(k), context(config, memory), worker(context) {}

  bool drained() const { return sender->drained() && (!receiver || receiver->drained()); }

  UcxConfig config;
  const Clock& clock;
  std::unique_ptr<UcxSender> sender;
  std::unique_ptr<UcxReceiver> receiver;
  UcxContext context;
  UcxWorker worker;
};

UcxTransport::UcxTransport(const UcxConfig& config, const Clock& clock, std::optional<KvReceiver> receiver,
                           KvMemory memory)
    : parts_(std::make_unique<Parts>(config, clock, memory)) {
  if (config.checksum && memory == KvMemory::kDevice)
    throw std::runtime_error("UCX: checksum reads every payload, which a device's memory does not allow");
  Parts& p = *parts_;
  p.sender = std::make_unique<UcxSender>(p.worker, p.config, clock, memory);
  if (receiver) p.receiver = std::make_unique<UcxReceiver>(p.worker, p.config, clock, *receiver, memory);
}

UcxTransport::~UcxTransport() {
  Parts& p = *parts_;
  p.sender->close_all();
  if (p.receiver) p.receiver->close_all();
  const auto give_up = std::chrono::steady_clock::now() + kGoodbye;
  while (!p.drained() && std::chrono::steady_clock::now() < give_up) ucp_worker_progress(p.worker.get());
  if (!p.drained()) log::error("UCX does not let go of a KV transfer; leaving it behind");
  p.sender->step(p.clock.now());
  p.sender->release_endpoints();
  if (p.receiver) p.receiver->release_endpoints();
}

void UcxTransport::push(KvPush push, Done done) { parts_->sender->push(std::move(push), std::move(done)); }

std::size_t UcxTransport::progress() {
  Parts& p = *parts_;
  std::size_t events = 0;
  for (int round = 0; round < kRoundsPerProgress && ucp_worker_progress(p.worker.get()) != 0; ++round)
    ++events;
  const auto now = p.clock.now();
  if (p.receiver) p.receiver->step(now);
  return events + p.sender->step(now);
}

bool UcxTransport::arm() {
  if (parts_->sender->has_finished()) return false;
  // Anything but BUSY is a broken descriptor: sleeping is right then, the owner polls every few milliseconds
  // anyway.
  return ucp_worker_arm(parts_->worker.get()) != UCS_ERR_BUSY;
}

int UcxTransport::event_fd() const { return parts_->worker.event_fd(); }

void UcxTransport::forget(const KvPeer& peer) { parts_->sender->forget(peer); }

std::string UcxTransport::address() const { return parts_->worker.address(); }

std::string UcxTransport::transport_name() const {
  std::string name = parts_->sender->transport_name();
  if (name.empty() && parts_->receiver) name = parts_->receiver->transport_name();
  return name;
}

}  // namespace lynx
