#include "loadtest/replay/replay_config.h"

#include "loadtest/replay/trace_reader.h"

namespace lynx {
namespace {

template <typename T>
T value_or_throw(const std::string& flag, Result<T> result) {
  if (!result) throw ConfigError("--" + flag + ": " + result.error().message);
  return std::move(result).value();
}

void describe_lengths(ConfigFields& f, const std::string& which, LogNormal& lengths) {
  f.field(which + "-median", &lengths.median, "median " + which + " tokens of a request (log-normal)");
  f.field(which + "-sigma", &lengths.sigma, "standard deviation of their logarithm");
  f.field(which + "-most", &lengths.most, "longer ones are cut to this");
}

}  // namespace

ConfigFields ReplayConfig::fields() {
  ConfigFields f;
  f.field("target", &target, "host:port of the OpenAI API");
  f.field("model", &model, "model name to ask for; empty = the first that the server lists");
  f.field("tokenizer", &tokenizer, "tokenizer.json that counts the tokens of the prompts");
  f.field("text", &text, "file whose sentences make the prompts; empty = a text of our own");
  f.field("trace", &trace, "file to replay; empty = synthesize one");
  f.field("format", &format, "of the trace: auto, azure, burstgpt, mooncake, qwen");
  f.field("speedup", &speedup, "2 = twice as fast");
  f.field("slice", &slice, "START,DURATION of the trace, in seconds or as 10m,90s");
  f.field("spread-within-tick", &spread_within_tick,
          "spread requests that share a timestamp up to the next one");
  f.field("lengths", &lengths,
          "scale (by one factor, so that the longest fits the context), scale-inputs, clip or keep");
  f.field("context", &context, "most input and output tokens of a request together; 0 = no limit");
  f.field("max-output-tokens", &max_output_tokens, "of one request; 0 = no limit");
  f.field("max-requests", &max_requests, "stop after the first so many; 0 = all");
  f.field("seed", &seed, "of texts, classes, spreading, sampling and the synthetic trace");
  f.field("slo", &slo, "classes: NAME:ttft=TIME,tpot=TIME");
  f.field("mix", &mix, "share of the requests by class");
  f.field("metrics", &metrics, "host:port of the workers' /metrics, scraped before and after");
  f.field("temperature", &temperature, "of sampling");
  f.field("ignore-eos", &ignore_eos, "answers run to their recorded length");
  f.field("timeout", &timeout, "of one request");
  f.field("ready-timeout", &ready_timeout, "wait so long for the server to be ready");
  f.field("progress", &progress, "time between progress lines; 0 = none");
  f.field("result", &result, "write the result to this file as JSON");
  f.field("save-requests", &save_requests, "with every single request in it");
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

Endpoint ReplayConfig::target_endpoint() const { return value_or_throw("target", parse_endpoint(target)); }

std::vector<Endpoint> ReplayConfig::metrics_endpoints() const {
  std::vector<Endpoint> out;
  for (const std::string& worker : metrics) out.push_back(value_or_throw("metrics", parse_endpoint(worker)));
  return out;
}

std::vector<SloTarget> ReplayConfig::slo_targets() const {
  // The default mix is that of the default classes; other classes without a mix share evenly.
  const ReplayConfig defaults;
  const bool even = mix == defaults.mix && slo != defaults.slo;
  return value_or_throw("slo", parse_slos(slo, even ? std::map<std::string, double>{} : mix));
}

WorkloadOptions ReplayConfig::workload_options() const {
  WorkloadOptions out{.speedup = speedup,
                      .spread_within_tick = spread_within_tick,
                      .lengths = value_or_throw("lengths", parse_length_mode(lengths)),
                      .context = context,
                      .max_output_tokens = max_output_tokens,
                      .max_requests = max_requests,
                      .seed = seed};
  if (!slice.empty()) out.slice = value_or_throw("slice", parse_slice(slice));
  return out;
}

Trace ReplayConfig::load_trace() const {
  if (!trace.empty()) return value_or_throw("trace", read_trace_file(trace, format));
  SyntheticOptions options = synthetic;
  options.gaps = value_or_throw("synthetic.gaps", parse_gap_shape(gaps));
  options.seed = seed;
  return value_or_throw("synthetic", synthesize(options));
}

}  // namespace lynx
