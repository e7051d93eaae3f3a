// Real batched decoding through the engine: prefill exact, decode remapped, continuous batching.
#pragma once

#include <string>
#include <vector>

#include "loadtest/quality/documents.h"
#include "loadtest/quality/policy_settings.h"
#include "loadtest/quality/progress.h"
#include "loadtest/quality/results.h"

namespace lynx {

class Tokenizer;

struct Task {
  std::string kind, question, answer;
};

// JSON lines of {"kind", "question", "answer"}. Throws std::runtime_error naming file and line.
std::vector<Task> read_tasks(const std::string& path);

// Exact match of greedy answers, for every setting; the first must be `off`, which the others are compared
// with.
void score_tasks(Model& model, const Tokenizer& tokenizer, const std::vector<Task>& tasks,
                 const std::vector<PolicySetting>& settings, std::uint32_t batch, Results& results,
                 Progress& progress);

// Greedy generations of `tokens` tokens after the prompts. The first setting must be `off`.
void run_long(Model& model, const Tokenizer& tokenizer, const Topics& topics,
              const std::vector<PolicySetting>& settings, std::uint32_t requests, std::uint32_t tokens,
              Results& results, Progress& progress);

}  // namespace lynx
