// Workers without a model, for tests of the router and for measuring it: they speak the control plane over
// real sockets and make up tokens. A prefill stub hands over to the decode stub of its fleet by a call, where
// real workers use UCX. A test can take over any frame with a hook. Loop thread; a destroyed stub is a killed
// worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/net/control_link.h"
#include "common/net/event_loop.h"
#include "services/engine/step_receipt.h"

namespace lynx {

struct StubToken {
  std::uint32_t id = 0;
  proto::FinishReason finish = proto::FinishReason::NONE;  // LENGTH at max_tokens comes by itself
};

struct StubOptions {
  proto::Role role = proto::Role::PREFILL;
  std::string name;
  std::uint64_t incarnation = 1;
  std::uint64_t model_fingerprint = 1;
  std::uint64_t kv_fingerprint = 1;
  std::string model = "stub";
  std::uint32_t context_tokens = 2048;
  std::uint32_t block_tokens = 16;
  std::uint32_t total_blocks = 1024;
  std::uint32_t max_batch = 64;
  std::chrono::milliseconds heartbeat_period{100};
  std::chrono::microseconds prefill_time{0};
  std::chrono::microseconds step_time{1000};
  float routed_experts = 0, activated_experts = 0;  // as its heartbeats tell
  std::string secret;
  // The token at a place of the generated text.
  std::function<StubToken(std::uint64_t seed, std::uint32_t index)> token;
  // What the decode step of that token says to a request that asks for a receipt; empty: nothing.
  std::function<StepReceipt(std::uint32_t index)> receipt;
};

class StubWorker;

// Which decode stubs a hand-over can reach.
struct StubFleet {
  std::map<std::string, StubWorker*> decode;
};

class StubWorker {
 public:
  struct Hooks {  // true: the hook has dealt with the frame
    std::function<bool(proto::Reserve::Reader)> on_reserve;
    std::function<bool(proto::Prefill::Reader)> on_prefill;
    std::function<void(std::uint64_t request)> on_cancel;
    std::function<bool(std::uint64_t request, std::uint32_t index)>
        on_token;  // before a decode token is made
  };

  StubWorker(EventLoop& loop, StubFleet& fleet, std::uint16_t router_port, StubOptions options,
             Hooks hooks = {});
  ~StubWorker();
  StubWorker(const StubWorker&) = delete;
  StubWorker& operator=(const StubWorker&) = delete;

  // What hooks and tests send by hand.
  void send_busy(std::uint64_t request, std::uint32_t retry_after_ms);
  void send_ended(std::uint64_t request, proto::ErrorCode code, const std::string& message);
  void send_heartbeat(bool draining = false);
  void send_tokens(std::uint64_t request, std::uint32_t index, std::uint32_t token);  // one decode token
  void freeze();  // says nothing more, as a stopped process would

  bool registered() const { return links_.up() > 0; }
  std::size_t holding() const { return held_.size(); }  // requests not finished, ended or cancelled
  std::size_t served() const { return served_; }        // requests seen

 private:
  struct Held {
    std::uint64_t link = 0;
    std::uint64_t seed = 0;
    std::uint32_t next_index = 0;
    std::uint32_t max_tokens = 0;
    std::uint8_t top_logprobs = 0;
    bool receipt = false;
    bool decoding = false;
    std::unique_ptr<Timer> timer;  // prefill under way
  };

  void fill_register(capnp::MallocMessageBuilder& message) const;
  void on_frame(std::uint64_t link, proto::Frame::Reader frame);
  Held& hold(std::uint64_t link, std::uint64_t request, proto::SamplingParams::Reader sampling,
             std::uint32_t generated);
  void on_reserve(std::uint64_t link, proto::Reserve::Reader reserve);
  void on_prefill(std::uint64_t link, proto::Prefill::Reader prefill);
  void prefilled(std::uint64_t request, const std::string& decode_worker);
  void handed_over(std::uint64_t request, std::uint32_t next_index, bool last);
  void arm_step();
  void step();
  StubToken make_token(const Held& held) const;
  void fill_token(proto::SampledToken::Builder out, const Held& held, const StubToken& token) const;
  void send(std::uint64_t request, capnp::MessageBuilder& message);

  EventLoop& loop_;
  StubFleet& fleet_;
  const StubOptions options_;
  const Hooks hooks_;
  std::map<std::uint64_t, Held> held_;
  std::map<std::uint64_t, std::uint64_t> link_of_;  // requests ever seen, for what a test sends late
  std::size_t served_ = 0;
  std::uint64_t steps_ = 0;
  bool frozen_ = false;
  RouterLinks links_;
  std::unique_ptr<Timer> heartbeats_;
  std::chrono::steady_clock::time_point next_step_;
  std::unique_ptr<Timer> stepper_;
};

}  // namespace lynx
