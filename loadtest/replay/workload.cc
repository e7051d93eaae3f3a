#include "loadtest/replay/workload.h"

#include <algorithm>
#include <cmath>

#include "loadtest/replay/mix_bits.h"

namespace lynx {
namespace {

using std::chrono::nanoseconds;

// Streams of random numbers, one per purpose, so that an option changes nothing but itself.
enum class Purpose : std::uint64_t { kSpread = 1, kClass = 2, kText = 3 };

std::uint64_t draw(std::uint64_t seed, Purpose purpose, std::uint64_t n) {
  return mix_bits(mix_bits(seed, static_cast<std::uint64_t>(purpose)), n);
}

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::vector<TraceRequest> cut(const Trace& trace, const WorkloadOptions& options) {
  std::vector<TraceRequest> out;
  for (const TraceRequest& request : trace.requests) {
    const nanoseconds at = options.slice ? request.at - options.slice->start : request.at;
    if (at < nanoseconds(0) || (options.slice && at >= options.slice->duration)) continue;
    if (options.max_requests > 0 && out.size() >= options.max_requests) break;
    out.push_back(request);
    out.back().at = at;
  }
  return out;
}

// A recorder that stamps on a grid offers bursts that never were. Each group of equal stamps is spread up to
// the next stamp; the last group takes the width of the one before.
void spread_within_ticks(std::vector<TraceRequest>& requests, std::uint64_t seed) {
  nanoseconds width{0};
  for (std::size_t begin = 0; begin < requests.size();) {
    std::size_t end = begin;
    while (end < requests.size() && requests[end].at == requests[begin].at) ++end;
    if (end < requests.size()) width = requests[end].at - requests[begin].at;
    for (std::size_t i = begin; i < end; ++i) {
      const double part = unit_interval(draw(seed, Purpose::kSpread, i));
      requests[i].at += nanoseconds(std::llround(part * static_cast<double>(width.count())));
    }
    begin = end;
  }
  std::ranges::stable_sort(requests, {}, &TraceRequest::at);
}

std::uint32_t output_limit(const WorkloadOptions& options) {
  std::uint32_t limit = options.max_output_tokens > 0 ? options.max_output_tokens : UINT32_MAX;
  if (options.lengths == LengthMode::kKeep || options.context < 2) return limit;
  if (options.lengths == LengthMode::kScaleInputs && options.max_output_tokens == 0)
    limit = options.context / 4;
  return std::clamp(limit, 1U, options.context - 1);
}

// What a request's input is multiplied with, so that it fits by the rule of the mode.
double factor_of(const TraceRequest& request, const WorkloadOptions& options) {
  const double context = options.context;
  switch (options.lengths) {
    case LengthMode::kKeep:
    case LengthMode::kClip:
      return 1;
    case LengthMode::kScale:
      return context / (static_cast<double>(request.input_tokens) + request.output_tokens);
    case LengthMode::kScaleInputs:
      return (context - std::min(request.output_tokens, output_limit(options))) / request.input_tokens;
  }
  return 1;
}

double fitting_factor(const std::vector<TraceRequest>& requests, const WorkloadOptions& options) {
  double factor = 1;
  if (options.context >= 2)
    for (const TraceRequest& request : requests) factor = std::min(factor, factor_of(request, options));
  return factor;
}

std::uint32_t scaled(std::uint32_t tokens, double factor) {
  return std::max(1U, static_cast<std::uint32_t>(std::floor(tokens * factor)));
}

// Rounding, and modes that do not scale, leave something to cut.
void fit_lengths(PlannedRequest& request, const WorkloadOptions& options) {
  request.output_tokens = std::min(request.output_tokens, output_limit(options));
  if (options.lengths == LengthMode::kKeep || options.context < 2) return;
  request.input_tokens = std::min(request.input_tokens, options.context - request.output_tokens);
}

std::size_t class_of(double position, const std::vector<SloTarget>& slos) {
  for (std::size_t i = 0; i + 1 < slos.size(); ++i) {
    if (position < slos[i].share) return i;
    position -= slos[i].share;
  }
  return slos.size() - 1;
}

}  // namespace

Result<LengthMode> parse_length_mode(const std::string& text) {
  for (const LengthMode mode :
       {LengthMode::kKeep, LengthMode::kClip, LengthMode::kScale, LengthMode::kScaleInputs})
    if (text == to_string(mode)) return mode;
  return invalid("lengths: '" + text + "' is not one of keep, clip, scale, scale-inputs");
}

std::string to_string(LengthMode mode) {
  switch (mode) {
    case LengthMode::kKeep:
      return "keep";
    case LengthMode::kClip:
      return "clip";
    case LengthMode::kScale:
      return "scale";
    case LengthMode::kScaleInputs:
      return "scale-inputs";
  }
  return "unknown";
}

Result<Slice> parse_slice(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return invalid("slice: expected START,DURATION, got '" + text + "'");
  // A plain number is seconds here, as in a trace.
  const auto part = [](std::string value) {
    if (!value.empty() && value.back() >= '0' && value.back() <= '9') value += 's';
    if (value.ends_with('m')) {
      const auto minutes = parse_duration(value.substr(0, value.size() - 1) + "s");
      return minutes ? Result<std::chrono::microseconds>(*minutes * 60) : minutes;
    }
    return parse_duration(value);
  };
  const auto start = part(text.substr(0, comma));
  if (!start) return invalid("slice: " + start.error().message);
  const auto duration = part(text.substr(comma + 1));
  if (!duration) return invalid("slice: " + duration.error().message);
  return Slice{*start, *duration};
}

Result<Workload> plan_workload(const Trace& trace, const WorkloadOptions& options,
                               const std::vector<SloTarget>& slos) {
  if (!(options.speedup > 0 && std::isfinite(options.speedup)))
    return invalid("speedup: expected a number above 0");
  std::vector<TraceRequest> requests = cut(trace, options);
  if (requests.empty()) return invalid("slice: no request of " + trace.name + " falls into it");
  if (options.spread_within_tick) spread_within_ticks(requests, options.seed);

  Workload workload;
  workload.length_factor = fitting_factor(requests, options);
  if (trace.block_tokens > 0) workload.block_tokens = scaled(trace.block_tokens, workload.length_factor);
  workload.requests.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    PlannedRequest planned;
    planned.at = nanoseconds(std::llround(static_cast<double>(requests[i].at.count()) / options.speedup));
    planned.input_tokens = scaled(requests[i].input_tokens, workload.length_factor);
    planned.output_tokens = options.lengths == LengthMode::kScale
                                ? scaled(requests[i].output_tokens, workload.length_factor)
                                : requests[i].output_tokens;
    planned.hash_ids = std::move(requests[i].hash_ids);
    planned.slo = class_of(unit_interval(draw(options.seed, Purpose::kClass, i)), slos);
    planned.seed = draw(options.seed, Purpose::kText, i);
    fit_lengths(planned, options);
    workload.requests.push_back(std::move(planned));
  }
  return workload;
}

}  // namespace lynx
