#include "loadtest/quality/generation.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "common/core/json_error.h"
#include "common/text/tokenizer.h"
#include "loadtest/quality/lab_cache.h"
#include "services/engine/monolith.h"

namespace lynx {

std::vector<Task> read_tasks(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  std::vector<Task> tasks;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const auto json = nlohmann::json::parse(line);
      tasks.push_back({json.at("kind"), json.at("question"), json.at("answer")});
    } catch (const nlohmann::json::exception& e) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + json_reason(e));
    }
  }
  if (tasks.empty()) throw std::runtime_error(path + ": no tasks");
  return tasks;
}

namespace {

std::vector<MonolithOutput> generate(Model& model, const std::vector<MonolithRequest>& requests,
                                     const RoutePolicy& policy, std::uint32_t batch) {
  std::uint32_t longest = 0;
  for (const auto& r : requests)
    longest = std::max(longest, static_cast<std::uint32_t>(r.prompt.size()) + r.sampling.max_tokens);
  KvCache cache(lab_layout(model, batch, longest));
  auto outputs = run_monolith(model, cache, {{.max_batch = batch, .chunk_tokens = 512}, policy}, requests);
  for (const auto& o : outputs)
    if (!o.status) throw std::runtime_error("generation: " + o.status.error().message);
  return outputs;
}

std::vector<TokenId> tokens_of(const MonolithOutput& output) {
  std::vector<TokenId> tokens;
  for (const auto& t : output.tokens) tokens.push_back(t.token);
  return tokens;
}

std::string trimmed(const std::string& text) {
  const char* space = " \n\t\r";
  const auto from = text.find_first_not_of(space), to = text.find_last_not_of(space);
  return from == std::string::npos ? "" : text.substr(from, to - from + 1);
}

double distinct_share(const std::vector<TokenId>& tokens) {
  constexpr std::size_t kGram = 4;
  if (tokens.size() < kGram) return 1;
  std::set<std::vector<TokenId>> seen;
  for (std::size_t i = 0; i + kGram <= tokens.size(); ++i)
    seen.emplace(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                 tokens.begin() + static_cast<std::ptrdiff_t>(i + kGram));
  return static_cast<double>(seen.size()) / static_cast<double>(tokens.size() - kGram + 1);
}

// Mean nats per token that the exact model gives to `text` after `prompt`.
double exact_loss(Model& model, std::vector<TokenId> prompt, const std::vector<TokenId>& text) {
  const auto first = static_cast<std::uint32_t>(prompt.size()) - 1;
  prompt.insert(prompt.end(), text.begin(), text.end());
  const auto rows = static_cast<std::uint32_t>(prompt.size()) - 1;
  KvCache cache(lab_layout(model, 1, rows + 1));
  std::vector<BlockId> blocks(cache.layout().blocks);
  for (BlockId b = 0; b < blocks.size(); ++b) blocks[b] = b;
  const SequenceRows sequence{0, rows, 0, blocks};
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t r = first; r < rows; ++r) wanted.push_back(r);
  StepResult result;
  StepBatch batch;
  batch.tokens = std::span(prompt).first(rows);
  batch.sequences = {&sequence, 1};
  batch.logit_rows = wanted;
  model.forward(batch, cache, result, nullptr);
  ;
  const std::size_t vocab = model.config().vocab;
  double sum = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto logits = std::span(result.logits).subspan(i * vocab, vocab);
    const float max = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float z : logits) total += std::exp(static_cast<double>(z - max));
    sum += std::log(total) + max - logits[text[i]];
  }
  return sum / static_cast<double>(wanted.size());
}

}  // namespace

void score_tasks(Model& model, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                 const std::vector<PolicySetting>& settings, std::uint32_t batch, Results& results,
                 Progress& progress) {
  std::vector<MonolithRequest> requests;
  for (const Task& task : tasks) {
    MonolithRequest r;
    r.prompt = tokenizer.encode(task.question + "\n");
    r.sampling.temperature = 0;
    r.sampling.max_tokens = 96;
    requests.push_back(std::move(r));
  }
  std::vector<std::string> exact;
  for (const PolicySetting& setting : settings) {
    progress.begin("tasks, " + setting.label + ", B = " + std::to_string(batch));
    const auto outputs = generate(model, requests, setting.policy, batch);
    TaskScore score{.label = setting.label, .batch = batch, .kinds = {}, .all = {}, .same_as_exact = {}};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const std::string answer = trimmed(tokenizer.decode(tokens_of(outputs[i])));
      if (exact.size() < tasks.size()) exact.push_back(answer);
      const double right = answer == tasks[i].answer ? 1 : 0;
      score.kinds[tasks[i].kind].add(right);
      score.all.add(right);
      score.same_as_exact.add(answer == exact[i] ? 1 : 0);
    }
    results.tasks.push_back(std::move(score));
  }
}

void run_long(Model& model, const Tokenizer& tokenizer, const Topics& topics,
              const std::vector<PolicySetting>& settings, std::uint32_t count, std::uint32_t tokens,
              Results& results, Progress& progress) {
  std::vector<MonolithRequest> requests(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& prompts = topics.prompts[i % topics.names.size()];
    requests[i].prompt = tokenizer.encode(prompts[i / topics.names.size() % prompts.size()]);
    requests[i].sampling.temperature = 0;
    requests[i].sampling.max_tokens = requests[i].sampling.min_tokens = tokens;
    requests[i].sampling.ignore_eos = true;
  }
  std::vector<std::vector<TokenId>> exact;
  for (const PolicySetting& setting : settings) {
    progress.begin("generations of " + std::to_string(tokens) + " tokens, " + setting.label);
    const auto outputs = generate(model, requests, setting.policy, count);
    LongRun run{.label = setting.label, .same_prefix = {}, .exact_loss = {}, .distinct = {}};
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto text = tokens_of(outputs[i]);
      if (exact.size() < count) exact.push_back(text);
      const auto differs = std::mismatch(text.begin(), text.end(), exact[i].begin(), exact[i].end());
      run.same_prefix.add(static_cast<double>(differs.first - text.begin()));
      run.exact_loss.add(exact_loss(model, requests[i].prompt, text));
      run.distinct.add(distinct_share(text));
    }
    results.long_runs.push_back(std::move(run));
  }
}

}  // namespace lynx
