#include "loadtest/quality/lab_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <stdexcept>

namespace lynx {

void LabOptions::add_to(CLI::App& app) {
  app.add_option("--model", model, "Hugging Face folder")->capture_default_str();
  app.add_option("--device", device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", threads, "of the CPU; 0 = one per core")->capture_default_str();
  app.add_option("--text", text, "'own': the exact model writes it; or held_out.npy of the training recipe")
      ->capture_default_str();
  app.add_option("--data", data, "folder of topics.json and tasks.jsonl")->capture_default_str();
  app.add_option("--out", out, "folder for lab.json, lab.md and lab.html")->capture_default_str();
  app.add_option("--policies", policies,
                 "of routing, in the order of the report; POLICY/WEIGHTS: with another rule of lynx.weights")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batch", batches, "batch sizes")->delimiter(',')->capture_default_str();
  app.add_option("--parts", parts, "what to measure")
      ->delimiter(',')
      ->check(CLI::IsMember({"curves", "sensitivity", "affinity", "tasks", "long"}))
      ->capture_default_str();
  app.add_option("--seeds", seeds, "each with documents and batches of its own")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--documents", documents, "of each seed")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--prefix", prefix, "tokens of a document that are prefilled, exactly")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--length", length, "tokens of a document; those after the prefix are measured")
      ->check(CLI::Range(3, 1 << 20))
      ->capture_default_str();
  app.add_option("--tasks", tasks, "tasks to decode; 0 = all")->capture_default_str();
  app.add_option("--task-batch", task_batch, "sequences of a step while tasks are decoded")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--long-requests", long_requests, "long generations")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--long-tokens", long_tokens, "tokens of each")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_flag("--quick", quick, "minutes on two cores: B = 4 and 16, fewer and shorter documents");
  app.add_flag("--quiet", quiet, "no progress on stderr");
}

void LabOptions::settle(const CLI::App& app) {
  const auto quicker = [&](const char* option, auto& value, auto to) {
    if (quick && app.count(option) == 0) value = to;
  };
  quicker("--batch", batches, std::vector<std::uint32_t>{4, 16});
  quicker("--documents", documents, 32U);
  quicker("--prefix", prefix, 64U);
  quicker("--length", length, 88U);
  quicker("--tasks", tasks, 84U);
  quicker("--long-requests", long_requests, 8U);
  if (prefix >= length) throw std::runtime_error("--prefix: must be shorter than --length");
  for (const std::uint32_t batch : batches)
    if (batch == 0 || batch > documents)
      throw std::runtime_error("--batch: " + std::to_string(batch) + " does not fit " +
                               std::to_string(documents) + " documents");
}

bool LabOptions::has(const std::string& part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

}  // namespace lynx
