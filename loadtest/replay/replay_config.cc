#include "loadtest/replay/replay_config.h"

#include <unistd.h>

#include <filesystem>

#include "common/config/field_checks.h"
#include "loadtest/replay/trace_reader.h"

namespace lynx {
namespace {

void describe_lengths(ConfigFields& f, const std::string& which, LogNormal& lengths) {
  f.field(which + "-median", &lengths.median, "median " + which + " tokens of a request (log-normal)");
  f.field(which + "-sigma", &lengths.sigma, "standard deviation of their logarithm");
  f.field(which + "-most", &lengths.most, "longer ones are cut to this");
}

}  // namespace

ConfigFields ReplayConfig::fields() {
  ConfigFields f;
  f.field("target", &target, "host:port of the OpenAI API");
  f.field("against", &against,
          "host:port of a second server: the same requests go to it too, and are compared");
  f.field("order", &order, "of the two servers: one-after-other or together");
  f.field("names", &names, "what the two servers are called in the report");
  f.field("model", &model, "model name to ask for; empty = the first that the server lists");
  f.field("tokenizer", &tokenizer, "tokenizer.json that counts the tokens of the prompts");
  f.field("text", &text, "file whose sentences make the prompts; empty = a text of our own");
  f.field("topics", &topics,
          "JSON file {\"topic\": [text, ...]}: each request's prompt is of one of its topics");
  f.field("topic-tokens", &topic_tokens, "that the prompts of a topic begin with, all the same");
  f.field("trace", &trace,
          "file to replay, or folder of ServeGen client pools to draw from; empty = synthesize one");
  f.field("format", &format, "of the trace: auto, azure, burstgpt, mooncake, qwen");
  f.field("speedup", &speedup, "2 = twice as fast");
  f.field("slice", &slice, "START,DURATION of the trace, in seconds or as 10m,90s");
  f.field("spread-within-tick", &spread_within_tick,
          "spread requests that share a timestamp up to the next one");
  f.field("lengths", &lengths,
          "scale (by one factor, so that the longest fits the context), scale-inputs, clip or keep");
  f.field("context", &context, "most input and output tokens of a request together; 0 = no limit");
  f.field("max-output-tokens", &max_output_tokens, "of one request; 0 = no limit");
  f.field("warm-up", &warm_up, "requests due before are sent, but not judged");
  f.field("max-requests", &max_requests, "stop after the first so many; 0 = all");
  f.field("seed", &seed, "of texts, classes, spreading, sampling and the synthetic trace");
  f.field("slo", &slo, "classes: NAME:ttft=TIME,tpot=TIME");
  f.field("mix", &mix, "share of the requests by class");
  f.field("metrics", &metrics, "host:port of the workers' /metrics, scraped before and after");
  f.field("against-metrics", &against_metrics, "the same of the second server's workers");
  f.field("sample", &sample, "time between scrapes during the run, for the curves; 0 = none");
  f.field("temperature", &temperature, "of sampling");
  f.field("ignore-eos", &ignore_eos, "answers run to their recorded length");
  f.field("receipts", &receipts,
          "ask for a receipt with each answer, which fills the router's histograms of them");
  f.field("timeout", &timeout, "of one request");
  f.field("ready-timeout", &ready_timeout, "wait so long for the server to be ready");
  f.field("progress", &progress, "time between progress lines or live frames; 0 = none");
  f.field("live", &live, "view redrawn in place: on, off, or auto = where stderr is a terminal");
  f.field("result", &result,
          "write the result to this file as JSON; of two servers, the name goes before its end");
  f.field("html", &html, "write a report to this file: one HTML page with plots");
  f.field("markdown", &markdown, "write a summary to this file");
  f.field("save-requests", &save_requests, "with every single request in it");
  f.field("check", &check, "send nothing: read all that the run needs, and say what it would send");
  f.section("pool");
  f.field("start", &pool.start_s, "second of the recorded time at which a client pool is drawn from");
  f.field("duration", &pool.duration_s, "seconds");
  f.field("rate", &pool.rate, "requests per second, expected; 0 = as recorded");
  f.section("synthetic");
  f.field("duration", &synthetic.duration_s, "seconds");
  f.field("rate", &synthetic.rate, "requests per second, mean of the run");
  f.field("gaps", &gaps, "gamma or weibull");
  f.field("gap-cv", &synthetic.gap_cv, "standard deviation / mean of the gaps between requests; 1 = Poisson");
  f.field("burst", &synthetic.burst, "rate while ON / mean rate; 1 = steady");
  f.field("on", &synthetic.on_s, "mean seconds of an ON phase");
  f.field("off", &synthetic.off_s, "mean seconds of an OFF phase");
  describe_lengths(f, "input", synthetic.input);
  describe_lengths(f, "output", synthetic.output);
  return f;
}

std::vector<ReplayConfig::Side> ReplayConfig::sides() const {
  const auto endpoints = [](const std::string& flag, const std::vector<std::string>& texts) {
    std::vector<Endpoint> out;
    for (const std::string& one : texts) out.push_back(value_or_throw(flag, parse_endpoint(one)));
    return out;
  };
  if (names.size() != 2 || names[0].empty() || names[1].empty() || names[0] == names[1])
    throw ConfigError("--names: expected two different names");
  std::vector<Side> out{
      {names[0], value_or_throw("--target", parse_endpoint(target)), endpoints("--metrics", metrics)}};
  if (!against.empty())
    out.push_back({names[1], value_or_throw("--against", parse_endpoint(against)),
                   endpoints("--against-metrics", against_metrics)});
  return out;
}

bool ReplayConfig::together() const {
  if (order != "one-after-other" && order != "together")
    throw ConfigError("--order: '" + order + "' is not one of one-after-other, together");
  return order == "together";
}

bool ReplayConfig::draw_live() const {
  if (live != "auto" && live != "on" && live != "off")
    throw ConfigError("--live: '" + live + "' is not one of on, off, auto");
  return live == "on" || (live == "auto" && isatty(STDERR_FILENO) == 1);
}

std::vector<SloTarget> ReplayConfig::slo_targets() const {
  // The default mix is that of the default classes; other classes without a mix share evenly.
  const ReplayConfig defaults;
  const bool even = mix == defaults.mix && slo != defaults.slo;
  return value_or_throw_in("--", parse_slos(slo, even ? std::map<std::string, double>{} : mix));
}

// "out.json", "A" -> "out.A.json".
std::string ReplayConfig::result_path(const Side& side) const {
  if (result.empty() || against.empty()) return result;
  const std::size_t slash = result.find_last_of('/'), dot = result.find_last_of('.');
  const bool ends = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return result.substr(0, ends ? dot : result.size()) + "." + side.name + (ends ? result.substr(dot) : "");
}

// Before a run that takes its time, not after it.
void ReplayConfig::check_files() const {
  std::vector<std::pair<std::string, std::string>> files{{"--html", html}, {"--markdown", markdown}};
  for (const Side& side : sides()) files.emplace_back("--result", result_path(side));
  for (const auto& [flag, path] : files) {
    if (path.empty()) continue;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const std::string there = std::filesystem::exists(path) ? path : folder.empty() ? "." : folder.string();
    if (::access(there.c_str(), W_OK) != 0 || std::filesystem::is_directory(path))
      throw ConfigError(flag + ": " + path + ": cannot be written");
  }
}

WorkloadOptions ReplayConfig::workload_options() const {
  if (context == 1) throw ConfigError("--context: a request has at least 2 tokens; 0 = no limit");
  WorkloadOptions out{.speedup = speedup,
                      .spread_within_tick = spread_within_tick,
                      .lengths = value_or_throw_in("--", parse_length_mode(lengths)),
                      .context = context,
                      .max_output_tokens = max_output_tokens,
                      .max_requests = max_requests,
                      .seed = seed};
  if (!slice.empty()) out.slice = value_or_throw_in("--", parse_slice(slice));
  return out;
}

Trace ReplayConfig::draw_from_pool() const {
  PoolOptions options = pool;
  options.input = synthetic.input;
  options.output = synthetic.output;
  options.seed = seed;
  const ClientPool clients = value_or_throw("--trace", read_client_pool(trace));
  return value_or_throw_in("--pool.", draw_trace(clients, options));
}

Trace ReplayConfig::load_trace() const {
  if (std::filesystem::is_directory(trace)) return draw_from_pool();
  if (!trace.empty()) return value_or_throw("--trace", read_trace_file(trace, format));
  SyntheticOptions options = synthetic;
  options.gaps = value_or_throw("--synthetic.gaps", parse_gap_shape(gaps));
  options.seed = seed;
  return value_or_throw_in("--synthetic.", synthesize(options));
}

}  // namespace lynx
