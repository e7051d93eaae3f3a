#include "loadtest/replay/load_driver.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "loadtest/replay/timeline.h"

namespace lynx {

LoadDriver::LoadDriver(EventLoop& loop, HttpClient& client, const Clock& clock, DriverOptions options,
                       const Workload& workload, const std::vector<SloTarget>& slos,
                       const PromptWriter& writer)
    : loop_(loop),
      client_(client),
      clock_(clock),
      options_(std::move(options)),
      workload_(workload),
      slos_(slos),
      writer_(writer) {}

void LoadDriver::start(std::function<void()> finished) {
  finished_ = std::move(finished);
  start_ = clock_.now();
  pacer_ = Pacer(workload_.requests, start_);
  send_due();
}

void LoadDriver::send_due() {
  while (true) {
    const auto due = pacer_.take(clock_.now());
    if (!due) break;
    send(*due);
  }
  if (const auto next = pacer_.next_at())
    timer_ = loop_.after(std::max(*next - clock_.now(), Clock::duration(0)), [this] { send_due(); });
}

HttpCall LoadDriver::make_call(const PlannedRequest& request) const {
  nlohmann::json body{{"model", options_.model},
                      {"prompt", writer_.write(request, workload_.block_tokens)},
                      {"max_tokens", request.output_tokens},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}},
                      {"temperature", options_.temperature},
                      {"seed", request.seed >> 33},
                      {"ignore_eos", options_.ignore_eos},
                      {"slo_class", slos_[request.slo].name}};
  if (options_.receipts) body["lynx"] = {{"receipt", true}};  // other servers may not know it
  HttpCall call{.method = "POST",
                .target = "/v1/completions",
                .headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}},
                .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                .timeout = options_.timeout};
  if (!options_.api_key.empty()) call.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
  return call;
}

void LoadDriver::send(Pacer::Due due) {
  const PlannedRequest& request = workload_.requests[due.index];
  HttpCall call = make_call(request);
  const Clock::time_point now = clock_.now();  // making the prompt is part of being late
  Outcome outcome;
  outcome.slo = request.slo;
  outcome.sent_at = now - start_;
  outcome.lateness = outcome.sent_at - std::chrono::duration_cast<Clock::duration>(request.at);
  outcome.warm_up = request.at < options_.warm_up;
  outcome.input_tokens = request.input_tokens;
  outcome.asked_tokens = request.output_tokens;
  worst_lateness_ = std::max(worst_lateness_, outcome.lateness);
  outcomes_.push_back(std::move(outcome));

  const std::size_t index = due.index;
  flights_.emplace(index, Flight{CompletionStream(now), nullptr});
  auto handle = client_.send(
      std::move(call), [this, index](std::string_view piece) { on_bytes(index, piece); },
      [this, index](const Result<HttpReply>& reply) { on_done(index, reply); });
  if (const auto flight = flights_.find(index); flight != flights_.end())
    flight->second.call = std::move(handle);
}

void LoadDriver::on_bytes(std::size_t index, std::string_view bytes) {
  CompletionStream& stream = flights_.at(index).stream;
  const bool waited = !stream.first();
  const std::size_t gaps = stream.itl().size();
  const std::uint32_t before = stream.pieces();
  const Clock::time_point now = clock_.now();
  stream.on_bytes(bytes, now);
  pieces_ += stream.pieces() - before;
  const auto first = stream.first();
  if (waited && first) live_.first_piece(now, *first - (start_ + outcomes_[index].sent_at));
  for (std::size_t i = gaps; i < stream.itl().size(); ++i) live_.next_piece(now, stream.itl()[i]);
}

void LoadDriver::on_done(std::size_t index, const Result<HttpReply>& reply) {
  const auto flight = flights_.extract(index);  // keeps the call alive until we leave
  flight.mapped().stream.finish(reply, clock_.now(), outcomes_[index]);
  const Outcome& outcome = outcomes_[index];
  ++(outcome.completed() ? completed_ : failed_);
  live_.ended(clock_.now(), within(slos_[outcome.slo], outcome));
  finish_if_over();
}

void LoadDriver::finish_if_over() {
  if (flights_.empty() && !pacer_.next_at() && finished_) std::exchange(finished_, nullptr)();
}

void LoadDriver::stop() {
  timer_.reset();
  pacer_ = Pacer({}, start_);
  const Error interrupted{ErrorCode::kCancelled, "the run was stopped"};
  for (auto& [index, flight] : std::exchange(flights_, {})) {
    flight.stream.finish(interrupted, clock_.now(), outcomes_[index]);
    outcomes_[index].failure = "interrupted";
    ++failed_;
  }
  finish_if_over();
}

LoadDriver::Progress LoadDriver::progress() const {
  const Progress p{.elapsed = clock_.now() - start_,
                   .planned = workload_.requests.size(),
                   .sent = outcomes_.size(),
                   .in_flight = flights_.size(),
                   .completed = completed_,
                   .failed = failed_,
                   .pieces = pieces_,
                   .worst_lateness = worst_lateness_};
  return p;
}

}  // namespace lynx
