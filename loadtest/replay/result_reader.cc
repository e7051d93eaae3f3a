#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "loadtest/replay/run_view.h"

namespace lynx {
namespace {

using nlohmann::json;

constexpr double kMostSeconds = 1e8;  // of one request or one run: three years

// Reads the members of one object; the first that is wrong is kept, the rest reads as nothing.
class Members {
 public:
  Members(const json& object, std::string place, std::string& wrong)
      : object_(object), place_(std::move(place)), wrong_(wrong) {
    if (!object_.is_object()) fail("is no object");
  }

  double number(const char* key) const {
    const json* at = find(key);
    if (at != nullptr && at->is_number() && std::isfinite(at->get<double>())) return at->get<double>();
    fail(std::string(key) + " is missing or no number");
    return 0;
  }
  std::uint32_t count(const char* key) const {
    const double value = number(key);
    if (value >= 0 && value <= 4e9) return static_cast<std::uint32_t>(value);
    fail(std::string(key) + " is out of range");
    return 0;
  }
  std::string text(const char* key) const {
    const json* at = find(key);
    if (at != nullptr && at->is_string()) return at->get<std::string>();
    fail(std::string(key) + " is missing or no text");
    return "";
  }
  bool truth(const char* key) const {
    const json* at = find(key);
    return at != nullptr && at->is_boolean() && at->get<bool>();
  }
  double seconds(const char* key) const {
    const double value = number(key);
    if (std::abs(value) < kMostSeconds) return value;
    fail(std::string(key) + " is out of range");
    return 0;
  }
  Clock::duration time(const char* key) const {  // written in seconds
    return std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds(key)));
  }
  std::vector<double> numbers(const char* key) const {  // null is NaN
    std::vector<double> out;
    const json* at = find(key);
    if (at == nullptr || !at->is_array()) {
      fail(std::string(key) + " is missing or no list");
      return out;
    }
    for (const json& value : *at)
      out.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
    return out;
  }
  const json& member(const char* key) const {
    static const json kNothing = json::object();
    const json* at = find(key);
    if (at != nullptr) return *at;
    fail(std::string(key) + " is missing");
    return kNothing;
  }
  void fail(const std::string& what) const {
    if (wrong_.empty()) wrong_ = place_ + what;
  }

 private:
  const json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }

  const json& object_;
  const std::string place_;
  std::string& wrong_;
};

std::chrono::microseconds objective(const Members& slo, const char* key) {
  const double ms = slo.number(key);
  return std::chrono::microseconds(ms >= 0 && ms < 1e12 ? std::llround(ms * 1000) : 0);
}

void read_facts(const Members& top, RunFacts& facts, std::string& wrong) {
  facts.date = top.text("date");
  facts.model = top.text("model_id");
  facts.target = top.text("target");
  const Members trace(top.member("trace"), "trace.", wrong),
      warm_up(top.member("warm_up"), "warm_up.", wrong), lengths(top.member("lengths"), "lengths.", wrong);
  facts.trace_name = trace.text("file");
  facts.trace_format = trace.text("format");
  facts.warm_up_s = warm_up.seconds("seconds");
  facts.duration_s = top.seconds("duration") + facts.warm_up_s;
  facts.interrupted = top.truth("interrupted");
  facts.options.speedup = top.number("speedup");
  facts.options.spread_within_tick = top.truth("spread_within_tick");
  if (const json& seed = top.member("seed"); seed.is_number_unsigned())
    facts.options.seed = seed.get<std::uint64_t>();
  else
    top.fail("seed is no whole number");
  facts.options.context = lengths.count("context");
  facts.length_factor = lengths.number("factor");
  if (const auto mode = parse_length_mode(lengths.text("mode"))) facts.options.lengths = *mode;
  const json& slos = top.member("slo");
  if (!slos.is_object()) return top.fail("slo is no object");
  for (const auto& [name, value] : slos.items()) {
    const Members slo(value, "slo." + name + ".", wrong);
    facts.slos.push_back(
        {.name = name, .share = 0, .ttft = objective(slo, "ttft_ms"), .tpot = objective(slo, "tpot_ms")});
  }
}

Outcome read_outcome(const Members& request, const std::vector<SloTarget>& slos) {
  Outcome out;
  const std::string name = request.text("slo_class");
  const auto slo = std::ranges::find(slos, name, &SloTarget::name);
  if (slo == slos.end()) request.fail("slo_class '" + name + "' is no class of the run");
  out.slo = slo == slos.end() ? 0 : static_cast<std::size_t>(slo - slos.begin());
  out.sent_at = request.time("start_time");
  out.lateness = request.time("lateness");
  out.warm_up = request.truth("warm_up");
  out.input_tokens = request.count("input_len");
  out.asked_tokens = request.count("asked_len");
  out.output_tokens = request.count("output_len");
  out.ttft = request.time("ttft");
  out.e2e = request.time("latency");
  double sum = 0;
  for (double gap : request.numbers("itl")) {
    if (!(gap >= 0 && gap < kMostSeconds)) gap = 0;
    sum += gap;
    if (sum >= kMostSeconds) break;
    out.itl.push_back(std::chrono::round<Clock::duration>(std::chrono::duration<double>(gap)));
  }
  if (sum >= kMostSeconds) request.fail("itl is out of range");
  out.failure = request.text("error");
  out.detail = request.text("detail");
  return out;
}

WorkerReport read_workers(const Members& top, std::string& wrong) {
  WorkerReport out;
  if (const json& experts = top.member("experts"); experts.is_object()) {
    const Members e(experts, "experts.", wrong);
    out.layer_steps = e.number("layer_steps");
    out.routed_mean = e.number("routed_mean");
    out.activated_mean = e.number("activated_mean");
    out.remapped_share = e.number("remapped_share");
    out.retained_mass_mean = e.number("retained_mass_mean");
  }
  const Members kv(top.member("kv"), "kv.", wrong);
  const json& by_transport = kv.member("bytes_by_transport");
  if (by_transport.is_object())
    for (const auto& [transport, bytes] : by_transport.items())
      if (bytes.is_number()) out.kv_bytes[transport] = bytes.get<double>();
  out.kv_transfers = kv.number("transfers");
  out.kv_seconds_mean = kv.number("mean_transfer_ms") / 1e3;
  out.kv_exposed_seconds_mean = kv.number("mean_exposed_ms") / 1e3;
  out.kv_failures = kv.number("failures");
  return out;
}

template <typename Curves>
void read_curves(const Members& from, std::span<const NamedCurve<Curves>> all, Curves& out) {
  out.at_s = from.numbers("at_s");
  for (const auto& curve : all) {
    Points& points = out.*curve.points = from.numbers(curve.name);
    if (points.size() != out.at_s.size()) from.fail(std::string(curve.name) + " differs in length from at_s");
  }
}

void read_series(const Members& top, RunView& run, std::string& wrong) {
  read_curves<FleetCurves>(Members(top.member("fleet"), "fleet.", wrong), kFleetCurves, run.fleet);
  for (const json& value : top.member("workers")) {
    const std::string place = "workers[" + std::to_string(run.workers.size()) + "].";
    const Members worker(value, place, wrong);
    WorkerCurves& curves = run.workers.emplace_back();
    curves.name = worker.text("name");
    curves.decodes = worker.truth("decodes");
    read_curves<WorkerCurves>(worker, kWorkerCurves, curves);
  }
}

}  // namespace

Result<RunView> parse_result(const std::string& text, const std::string& name) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto corrupt = [&](const std::string& what) {
    return Error{ErrorCode::kCorrupt, name + ": " + what};
  };
  if (!parsed.is_object()) return corrupt("no JSON object");
  if (!parsed.contains("requests") || !parsed["requests"].is_array())
    return corrupt("no list of requests in it: write it with --save-requests");
  std::string wrong;
  const Members top(parsed, "", wrong);
  RunView run{.name = name, .report = {}, .outcomes = {}, .timeline = {}, .fleet = {}, .workers = {}};
  RunFacts facts;
  read_facts(top, facts, wrong);
  for (const json& request : parsed["requests"]) {
    const std::string place = "requests[" + std::to_string(run.outcomes.size()) + "]: ";
    run.outcomes.push_back(read_outcome(Members(request, place, wrong), facts.slos));
    if (!wrong.empty()) return corrupt(wrong);
  }
  const WorkerReport workers = read_workers(top, wrong);
  read_series(top, run, wrong);
  if (!wrong.empty()) return corrupt(wrong);
  run.timeline = make_timeline(run.outcomes, facts.slos, facts.duration_s);
  run.report = make_report(std::move(facts), run.outcomes, workers);
  return run;
}

Result<RunView> read_result(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kNotFound, path + ": " + std::strerror(errno)};
  return parse_result({std::istreambuf_iterator<char>(in), {}}, path);
}

}  // namespace lynx
