// A dispatcher without sockets: a clock that stands still, frames recorded instead of sent, and what workers
// would say said by the test.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/router/dispatcher.h"

namespace lynx::testing {

inline constexpr std::uint64_t kFirstRequest = 1000;

enum class Sent { kReserve, kPrefill, kCancel, kGone };

struct SentFrame {
  WorkerId to = 0;
  Sent kind = Sent::kCancel;
  std::uint64_t request = 0;
  std::vector<TokenId> tokens;
  std::uint32_t generated = 0;
  std::uint32_t max_tokens = 0;
  bool count_experts = false;
  std::string gone;  // kGone: name/incarnation
};

class RecordingSender final : public WorkerSender {
 public:
  bool send(WorkerId worker, capnp::MessageBuilder& message) override;

  std::vector<SentFrame> frames;
  std::vector<WorkerId> down;
};

// What one client saw of its sequences.
class Client final : public SequenceListener {
 public:
  bool on_token(std::uint32_t choice, const GeneratedToken& token) override;
  void on_finished(std::uint32_t) override { ++finished; }
  void on_failed(std::uint32_t, const ApiError& e) override {
    error = e;
    if (on_error) on_error();
  }

  std::vector<TokenId> tokens;
  TokenFinish finish = TokenFinish::kNone;
  std::optional<TokenId> stop_at;  // a stop string ends with this token
  std::function<void()> on_each_token, on_error;
  int finished = 0;
  std::optional<ApiError> error;
};

class DispatchBench {
 public:
  explicit DispatchBench(DispatchConfig config = {});

  WorkerId add_worker(WorkerRole role, const std::string& name, Fingerprint fingerprint = {1, 1},
                      std::uint32_t context = 2048);
  void add_pair();  // prefill "p", decode "d"
  struct Submitted {
    Dispatcher::FlowId flow;
    std::shared_ptr<Client> client;
  };
  Submitted submit(std::uint32_t max_tokens = 4, std::size_t slo_class = 0,
                   std::vector<TokenId> prompt = {7, 8, 9});
  void advance(std::chrono::milliseconds by);

  // What a worker says.
  void reserved(const SentFrame& reserve);
  void busy(const SentFrame& frame, std::uint32_t retry_after_ms = 50);
  void ended(const SentFrame& frame, ErrorCode code, bool transfer = false);
  void first_token(const SentFrame& prefill, TokenId token, std::uint32_t index = 0,
                   TokenFinish finish = TokenFinish::kNone);
  void handed_over(const SentFrame& prefill, const ExpertProfile& experts = {});
  void token(const SentFrame& reserve, TokenId token, std::uint32_t index,
             TokenFinish finish = TokenFinish::kNone);
  void heartbeat(WorkerId worker, bool draining = false);

  // The last frame of a kind, taken out of the record; fails the test when there is none.
  SentFrame take(Sent kind);
  std::size_t count(Sent kind) const;
  struct Attempt {
    SentFrame reserve, prefill;
  };
  Attempt attempt();  // reserve -> reserved -> the Prefill frame
  SentFrame reach_prefill() { return attempt().prefill; }
  // No load is reserved on any worker.
  bool all_released() const;
  double metric(const std::string& line) const;  // value of a line of /metrics, -1 when absent

  ManualClock clock;
  MetricsRegistry registry;
  std::vector<SloClass> classes;
  RouterMetrics metrics;
  RecordingSender sender;
  Dispatcher dispatcher;
  std::map<std::string, WorkerId> workers;

 private:
  WorkerId next_worker_ = 1;
};

}  // namespace lynx::testing
