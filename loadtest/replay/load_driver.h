// Sends a workload on time, whatever the answers do (open loop), and follows every stream. Loop thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "common/net/event_loop.h"
#include "common/net/http_client.h"
#include "loadtest/replay/completion_stream.h"
#include "loadtest/replay/live_stats.h"
#include "loadtest/replay/outcome.h"
#include "loadtest/replay/pacer.h"
#include "loadtest/replay/prompt_writer.h"
#include "loadtest/replay/workload.h"

namespace lynx {

struct DriverOptions {
  std::string model;
  std::string api_key;  // empty = no Authorization header
  double temperature = 1;
  bool ignore_eos = true;                      // answers as long as recorded
  bool receipts = false;                       // asked for
  std::chrono::milliseconds timeout{120'000};  // of one request, from its sending
  std::chrono::milliseconds warm_up{0};        // requests due before are marked so
};

class LoadDriver {
 public:
  // Workload, classes, clock and writer stay the caller's and outlive the driver.
  LoadDriver(EventLoop& loop, HttpClient& client, const Clock& clock, DriverOptions options,
             const Workload& workload, const std::vector<SloTarget>& slos, const PromptWriter& writer);

  // The run begins now. finished() once: when every request has ended, or after stop(). Destroying the driver
  // drops everything silently.
  void start(std::function<void()> finished);

  // Sends no more; what is in flight ends as "interrupted".
  void stop();

  // Of the requests sent so far, in order; those in flight are incomplete. Final after finished().
  const std::vector<Outcome>& outcomes() const { return outcomes_; }

  struct Progress {
    Clock::duration elapsed{0};
    std::size_t planned = 0, sent = 0, in_flight = 0, completed = 0, failed = 0;
    std::uint64_t pieces = 0;  // of text, received so far
    Clock::duration worst_lateness{0};
  };
  Progress progress() const;
  const LiveStats& live() const { return live_; }

 private:
  struct Flight {
    CompletionStream stream;
    std::unique_ptr<HttpCallHandle> call;
  };

  void send_due();
  void send(Pacer::Due due);
  void on_bytes(std::size_t index, std::string_view bytes);
  void on_done(std::size_t index, const Result<HttpReply>& reply);
  void finish_if_over();
  HttpCall make_call(const PlannedRequest& request) const;

  EventLoop& loop_;
  HttpClient& client_;
  const Clock& clock_;
  const DriverOptions options_;
  const Workload& workload_;
  const std::vector<SloTarget>& slos_;
  const PromptWriter& writer_;

  Clock::time_point start_{};
  Pacer pacer_{{}, {}};  // has nothing before start() and after stop()
  std::unique_ptr<Timer> timer_;
  std::map<std::size_t, Flight> flights_;  // by index of the request
  std::vector<Outcome> outcomes_;
  std::function<void()> finished_;
  std::size_t completed_ = 0, failed_ = 0;
  std::uint64_t pieces_ = 0;
  Clock::duration worst_lateness_{0};
  LiveStats live_;
};

}  // namespace lynx
