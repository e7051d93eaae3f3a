#include "loadtest/bench/stub_api.h"

#include <sched.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace lynx {

bool pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

StubApi::StubApi(const StubApiOptions& options) : options_(options) {
  std::promise<std::uint16_t> port;
  auto listening = port.get_future();
  thread_ = std::thread([this, &port] { serve(port); });
  port_ = listening.get();
}

StubApi::~StubApi() {
  loop_.stop();
  thread_.join();
}

void StubApi::serve(std::promise<std::uint16_t>& port) {
  if (options_.cpu >= 0) static_cast<void>(pin_to_cpu(options_.cpu));
  HttpServer server(loop_, {}, [this](HttpRequest request, std::shared_ptr<HttpResponder> out) {
    handle(request, std::move(out));
  });
  port.set_value(server.port());
  const auto steps = loop_.every(options_.step_time, [this] { step(); });
  std::unique_ptr<Timer> stalls;
  if (options_.stall.count() > 0)
    stalls = loop_.every(std::chrono::seconds(1), [this] { std::this_thread::sleep_for(options_.stall); });
  loop_.run();
  streams_.clear();
}

void StubApi::handle(const HttpRequest& request, std::shared_ptr<HttpResponder> out) {
  if (request.path != "/v1/completions") {
    HttpResponse response;
    response.body = R"({"data":[{"id":"stub"}]})";
    return out->respond(std::move(response));
  }
  const auto body = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  const std::uint32_t tokens = body.is_object() ? body.value("max_tokens", 1U) : 1U;
  if (!options_.silent) out->begin_stream(200, "text/event-stream");
  streams_[next_++] = {std::move(out), tokens, std::chrono::steady_clock::now() + options_.first_token};
}

void StubApi::step() {
  if (options_.silent) return;
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::uint64_t> done;
  for (auto& [id, stream] : streams_) {
    if (now < stream.first) continue;
    const bool last = --stream.left == 0;
    stream.out->write(
        last ? "data: {\"choices\":[{\"text\":\" x\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"
             : "data: {\"choices\":[{\"text\":\" x\",\"finish_reason\":null}]}\n\n");
    if (last) {
      stream.out->finish();
      done.push_back(id);
    }
  }
  for (const std::uint64_t id : done) streams_.erase(id);
}

}  // namespace lynx
