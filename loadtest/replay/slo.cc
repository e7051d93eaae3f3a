#include "loadtest/replay/slo.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace lynx {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Status set_objective(SloTarget& slo, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  if (equals == std::string::npos || (key != "ttft" && key != "tpot"))
    return invalid("slo: expected ttft=TIME or tpot=TIME, got '" + text + "'");
  const auto value = parse_duration(text.substr(equals + 1));
  if (!value) return invalid("slo: " + value.error().message);
  (key == "ttft" ? slo.ttft : slo.tpot) = *value;
  return {};
}

// "name:first objective" opens a class; anything else goes on with the one before.
Status add_part(std::vector<SloTarget>& out, std::string part) {
  if (const std::size_t colon = part.find(':'); colon != std::string::npos) {
    const std::string name = part.substr(0, colon);
    if (name.empty() || std::ranges::any_of(out, [&](const SloTarget& s) { return s.name == name; }))
      return invalid("slo: class '" + name + "' has no name or comes twice");
    out.push_back({.name = name});
    part.erase(0, colon + 1);
  }
  if (out.empty()) return invalid("slo: expected NAME:ttft=TIME,tpot=TIME, got '" + part + "'");
  return set_objective(out.back(), part);
}

Status set_shares(std::vector<SloTarget>& slos, const std::map<std::string, double>& mix) {
  double sum = 0;
  for (const auto& [name, weight] : mix) {
    const auto at = std::ranges::find(slos, name, &SloTarget::name);
    if (at == slos.end()) return invalid("mix: class '" + name + "' has no slo");
    if (!(weight >= 0 && std::isfinite(weight)))
      return invalid("mix: the weight of '" + name + "' is not 0 or more");
    at->share = weight;
    sum += weight;
  }
  if (mix.empty()) {
    for (SloTarget& slo : slos) slo.share = 1.0 / static_cast<double>(slos.size());
    return {};
  }
  if (!(sum > 0)) return invalid("mix: all weights are 0");
  for (SloTarget& slo : slos) slo.share /= sum;
  return {};
}

}  // namespace

Result<std::chrono::microseconds> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double scale = unit == "s" ? 1e6 : unit == "us" ? 1 : unit == "ms" || unit.empty() ? 1e3 : 0;
  if (error != std::errc() || scale == 0 || !(value >= 0 && value * scale < 1e15))
    return invalid("expected a time such as 500ms or 2s, got '" + text + "'");
  return std::chrono::microseconds(std::llround(value * scale));
}

Result<std::vector<SloTarget>> parse_slos(const std::vector<std::string>& slos,
                                          const std::map<std::string, double>& mix) {
  std::vector<SloTarget> out;
  for (const std::string& text : slos)
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      if (const Status added = add_part(out, text.substr(begin, end - begin)); !added) return added.error();
      begin = end + 1;
    }
  if (out.empty()) return invalid("slo: at least one class is needed");
  if (const Status shared = set_shares(out, mix); !shared) return shared.error();
  return out;
}

}  // namespace lynx
