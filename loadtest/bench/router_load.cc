#include "loadtest/bench/router_load.h"

#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "common/net/http_client.h"
#include "loadtest/stub/byte_tokenizer.h"
#include "loadtest/stub/stub_worker.h"
#include "services/router/router_service.h"

namespace lynx {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::chrono::microseconds kGatedStep{200};  // how often a worker may step when clients set the pace
constexpr std::size_t kTokensUnderWay = 8;            // per stream, when clients set the pace
constexpr std::chrono::seconds kJoinTimeout{5};

SteadyTime now() { return std::chrono::steady_clock::now(); }

// The router and its thread. Its CPU time is that of the thread alone.
class RouterThread {
 public:
  explicit RouterThread(std::size_t workers) {
    std::promise<std::pair<std::uint16_t, std::uint16_t>> ports;
    auto ready = ports.get_future();
    thread_ = std::thread([this, workers, &ports] { serve(workers, ports); });
    std::tie(http_port, control_port) = ready.get();
  }
  ~RouterThread() {
    loop_.stop();
    thread_.join();
  }
  RouterThread(const RouterThread&) = delete;
  RouterThread& operator=(const RouterThread&) = delete;

  double cpu_seconds() {
    clockid_t clock{};
    timespec time{};
    if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 || clock_gettime(clock, &time) != 0)
      return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  std::uint16_t http_port = 0;
  std::uint16_t control_port = 0;

 private:
  void serve(std::size_t workers, std::promise<std::pair<std::uint16_t, std::uint16_t>>& ports) {
    RouterConfig config;
    config.model_path = "stub";
    config.http_port = 0;
    config.control_port = 0;
    config.prefill_slots = static_cast<std::uint32_t>(64 * workers);
    RouterService service(loop_, config, Tokenizer::from_json(byte_tokenizer_json(), "bytes"), std::nullopt);
    ports.set_value({service.http_port(), service.control_port()});
    loop_.run();
  }

  EventLoop loop_;
  std::thread thread_;
};

// Clients and workers: one stream is one call after another, named to the workers by its seed.
class Load {
 public:
  explicit Load(const RouterLoadOptions& options)
      : options_(options),
        router_(options.decode_workers),
        client_(loop_, "127.0.0.1", router_.http_port),
        streams_(options.streams) {
    add_workers();
  }

  RouterLoadResult run() {
    await_workers();
    for (std::size_t i = 0; i < streams_.size(); ++i) start_call(i);
    run_for(options_.warm_up);
    measuring_ = true;
    const double cpu_before = router_.cpu_seconds();
    const SteadyTime begin = now();
    run_for(options_.measured);
    const double wall = seconds(now() - begin);
    result_.router_cpu_share = (router_.cpu_seconds() - cpu_before) / wall;
    result_.tokens_per_second = static_cast<double>(result_.seconds.size()) / wall;
    std::sort(result_.seconds.begin(), result_.seconds.end());
    return std::move(result_);
  }

 private:
  struct Stream {
    std::vector<SteadyTime> sent;  // by index of the token
    std::uint32_t received = 0;
    char last = 0;  // byte of the reply
    std::unique_ptr<HttpCallHandle> call;
  };

  void add_workers() {
    StubOptions prefill;
    prefill.name = "prefill";
    prefill.token = [this](std::uint64_t seed, std::uint32_t index) { return make_token(seed, index); };
    prefill_ = std::make_unique<StubWorker>(loop_, fleet_, router_.control_port, prefill);
    for (std::size_t i = 0; i < options_.decode_workers; ++i) {
      StubOptions decode = prefill;
      decode.role = proto::Role::DECODE;
      decode.name = "decode" + std::to_string(i);
      decode.max_batch = static_cast<std::uint32_t>(options_.streams);
      decode.step_time = step_time();
      StubWorker::Hooks hooks;
      if (options_.tokens_per_second == 0)
        hooks.on_token = [this](std::uint64_t, std::uint32_t) {
          return sent_ - received_ >= kTokensUnderWay * streams_.size();
        };
      decode_.push_back(std::make_unique<StubWorker>(loop_, fleet_, router_.control_port, decode, hooks));
      run_for(step_time() / options_.decode_workers);  // real workers do not step in time with each other
    }
  }

  std::chrono::microseconds step_time() const {
    if (options_.tokens_per_second == 0) return kGatedStep;
    const double steps = options_.tokens_per_second / static_cast<double>(options_.streams);
    return std::chrono::microseconds(static_cast<std::int64_t>(1e6 / steps));
  }

  StubToken make_token(std::uint64_t seed, std::uint32_t index) {
    auto& sent = streams_[seed].sent;
    if (index == sent.size()) sent.push_back(now());
    ++sent_;
    return {'a' + index % 26, proto::FinishReason::NONE};
  }

  void await_workers() {
    const SteadyTime end = now() + kJoinTimeout;
    const auto all_in = [&] {
      return prefill_->registered() && std::all_of(decode_.begin(), decode_.end(),
                                                   [](const auto& worker) { return worker->registered(); });
    };
    const auto poll = loop_.every(std::chrono::milliseconds(1), [&] {
      if (all_in() || now() > end) loop_.stop();
    });
    loop_.run();
    if (!all_in()) throw std::runtime_error("the stub workers could not register with the router");
  }

  void run_for(std::chrono::microseconds time) {
    const auto timer = loop_.after(time, [this] { loop_.stop(); });
    loop_.run();
  }

  void start_call(std::size_t index) {
    Stream& stream = streams_[index];
    stream.sent.clear();
    stream.received = 0;
    HttpCall call;
    call.method = "POST";
    call.target = "/v1/completions";
    call.headers = {{"content-type", "application/json"}};
    call.body = R"({"prompt":"The same few words each time.","stream":true,"max_tokens":)" +
                std::to_string(options_.tokens_per_stream) + R"(,"seed":)" + std::to_string(index) + "}";
    stream.call = client_.send(
        std::move(call), [this, &stream](std::string_view piece) { received(stream, piece); },
        [this, index](const Result<HttpReply>& reply) { ended(index, reply); });
  }

  // Every event of a stream is one token, but for [DONE] at its end. An empty line ends an event.
  void received(Stream& stream, std::string_view piece) {
    const SteadyTime at = now();
    for (const char c : piece) {
      if (std::exchange(stream.last, c) != '\n' || c != '\n' || stream.received == stream.sent.size())
        continue;
      ++received_;
      if (measuring_) result_.seconds.push_back(seconds(at - stream.sent[stream.received]));
      ++stream.received;
    }
  }

  void ended(std::size_t index, const Result<HttpReply>& reply) {
    const bool well =
        reply.ok() && reply->status == 200 && streams_[index].received == options_.tokens_per_stream;
    if (!well) ++result_.failed;
    // The handle that is being replaced belongs to the call that has just ended: not from within it.
    loop_.post([this, index] { start_call(index); });
  }

  static double seconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double>(d).count();
  }

  const RouterLoadOptions options_;
  RouterThread router_;
  EventLoop loop_;
  StubFleet fleet_;
  HttpClient client_;
  std::vector<Stream> streams_;
  std::unique_ptr<StubWorker> prefill_;
  std::vector<std::unique_ptr<StubWorker>> decode_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  bool measuring_ = false;
  RouterLoadResult result_;
};

}  // namespace

double RouterLoadResult::percentile(double p) const {
  if (seconds.empty()) return 0;
  const auto rank = static_cast<std::size_t>(p / 100 * static_cast<double>(seconds.size() - 1));
  return seconds[rank];
}

RouterLoadResult run_router_load(const RouterLoadOptions& options) { return Load(options).run(); }

}  // namespace lynx
