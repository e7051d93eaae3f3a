#include <algorithm>

#include "common/net/byte_stream.h"
#include "common/net/cluster_secret.h"
#include "common/net/control_link.h"

namespace lynx {
namespace {

using OnProven = std::function<void(Result<std::unique_ptr<FrameStream>>, std::string peer_service)>;

bool is_loopback(std::string_view peer) {
  return peer.starts_with("127.") || peer.starts_with("[::1]") || peer.starts_with("[::ffff:127.");
}

// Peers choose this text and we log it.
bool is_service_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         std::all_of(name.begin(), name.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
}

ErrorCode code_of(proto::ErrorCode code) {
  const auto value = static_cast<std::uint16_t>(code);
  return value <= static_cast<int>(ErrorCode::kInternal) ? static_cast<ErrorCode>(value)
                                                         : ErrorCode::kInternal;
}

class LinkProof : public std::enable_shared_from_this<LinkProof> {
 public:
  LinkProof(EventLoop& loop, std::unique_ptr<FrameStream> stream, ControlIdentity self, OnProven on_done)
      : loop_(loop), stream_(std::move(stream)), self_(std::move(self)), on_done_(std::move(on_done)) {}

  void start(std::chrono::milliseconds timeout) {
    timer_ = loop_.after(timeout, [this] {
      finish(Error{ErrorCode::kDeadlineExceeded, stream_->peer() + " did not prove itself in time"});
    });
    if (self_.secret.empty() && !is_loopback(stream_->peer())) {
      loop_.post([weak = weak_from_this()] {
        if (const auto proof = weak.lock())
          proof->refuse(ErrorCode::kPermission, "without a cluster secret only loopback peers are let in");
      });
      return;
    }
    stream_->start(
        {[this](proto::Frame::Reader frame) { on_frame(frame); }, [this](const Error& e) { finish(e); }});
    send_hello();
  }

 private:
  void send_hello() {
    capnp::MallocMessageBuilder message;
    auto hello = message.initRoot<proto::Frame>().initHello();
    hello.setVersion(proto::PROTOCOL_VERSION);
    hello.setService(self_.service);
    hello.setNonce(kj::arrayPtr(nonce_.data(), nonce_.size()));
    stream_->send(message);
  }

  void on_frame(proto::Frame::Reader frame) {
    if (frame.isHello()) return on_hello(frame.getHello());
    if (frame.isProof()) return on_proof(frame.getProof());
    if (frame.isRefused()) {
      const auto fault = frame.getRefused();
      return finish(
          Error{code_of(fault.getCode()), stream_->peer() + " refused us: " + fault.getMessage().cStr()});
    }
    refuse(ErrorCode::kCorrupt, "expected hello and proof before anything else");
  }

  void on_hello(proto::Hello::Reader hello) {
    if (greeted_) return refuse(ErrorCode::kCorrupt, "a second hello");
    if (hello.getVersion() != proto::PROTOCOL_VERSION) {
      return refuse(ErrorCode::kIncompatible, "control protocol version " +
                                                  std::to_string(hello.getVersion()) + " met " +
                                                  std::to_string(proto::PROTOCOL_VERSION));
    }
    peer_service_ = hello.getService().cStr();
    const auto nonce = hello.getNonce();
    if (nonce.size() != kNonceBytes || !is_service_name(peer_service_))
      return refuse(ErrorCode::kCorrupt, "a hello without a service name or a nonce of 16 bytes");
    // Services of one kind never talk to each other: this is our own hello, or our own proof to come, sent
    // back to us.
    if (peer_service_ == self_.service)
      return refuse(ErrorCode::kPermission, "a " + self_.service + " does not talk to a " + peer_service_);
    std::copy(nonce.begin(), nonce.end(), peer_nonce_.begin());
    greeted_ = true;
    send_proof();
  }

  void send_proof() {
    const Mac mac = prove(self_.secret, self_.service, peer_nonce_, nonce_);
    capnp::MallocMessageBuilder message;
    message.initRoot<proto::Frame>().initProof().setHmac(kj::arrayPtr(mac.data(), mac.size()));
    stream_->send(message);
  }

  void on_proof(proto::Proof::Reader proof) {
    if (!greeted_) return refuse(ErrorCode::kCorrupt, "a proof before its hello");
    const auto given = proof.getHmac();
    const std::string_view bytes(reinterpret_cast<const char*>(given.begin()), given.size());
    if (!equal(prove(self_.secret, peer_service_, nonce_, peer_nonce_), bytes))
      return refuse(ErrorCode::kPermission, "the cluster secrets differ");
    stream_->start({});  // what follows waits for the new owner
    finish(std::move(stream_));
  }

  void refuse(ErrorCode code, const std::string& reason) {
    capnp::MallocMessageBuilder message;
    auto fault = message.initRoot<proto::Frame>().initRefused();
    fault.setCode(static_cast<proto::ErrorCode>(code));
    fault.setMessage(reason);
    stream_->send(message);
    finish(Error{code, stream_->peer() + ": " + reason});
  }

  void finish(Result<std::unique_ptr<FrameStream>> result) {
    const auto self = shared_from_this();
    const auto done = std::exchange(on_done_, nullptr);
    if (!done) return;
    release_from_loop(loop_, this);
    timer_.reset();
    stream_.reset();  // after a refusal: sent, then closed
    done(std::move(result), peer_service_);
  }

  EventLoop& loop_;
  std::unique_ptr<FrameStream> stream_;
  const ControlIdentity self_;
  OnProven on_done_;
  std::unique_ptr<Timer> timer_;
  const Nonce nonce_ = random_nonce();
  Nonce peer_nonce_{};
  bool greeted_ = false;  // their hello is in
  std::string peer_service_;
};

}  // namespace

void prove_link(EventLoop& loop, std::unique_ptr<FrameStream> stream, const ControlIdentity& self,
                std::chrono::milliseconds timeout, OnProven on_done) {
  auto proof = std::make_shared<LinkProof>(loop, std::move(stream), self, std::move(on_done));
  proof->start(timeout);
  keep_with_loop(loop, std::move(proof));
}

}  // namespace lynx
