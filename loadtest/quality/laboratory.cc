#include "loadtest/quality/laboratory.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "common/text/tokenizer.h"
#include "loadtest/quality/affinity.h"
#include "loadtest/quality/curves.h"
#include "loadtest/quality/generation.h"
#include "loadtest/quality/placement.h"
#include "loadtest/quality/sensitivity.h"
#include "services/engine/moe_transformer.h"

namespace lynx {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

void add_exact(const ExactRun& exact, Results& results) {
  for (std::size_t d = 0; d < exact.documents().size(); ++d) {
    double loss = 0, right = 0;
    for (std::uint32_t i = 0; i < exact.measured(); ++i) {
      const auto logits = exact.logits(d, i);
      const auto first = std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (const float z : logits) sum += std::exp(static_cast<double>(z - *first));
      const TokenId next = exact.documents()[d].tokens[exact.first_row() + i + 1];
      loss += std::log(sum) + *first - logits[next];
      right += static_cast<TokenId>(first - logits.begin()) == next ? 1 : 0;
    }
    results.exact_loss.add(loss / exact.measured());
    results.exact_accuracy.add(right / exact.measured());
  }
}

class Laboratory {
 public:
  explicit Laboratory(const LabOptions& options)
      : options_(options),
        topics_(read_topics(options.data + "/topics.json")),
        tokenizer_(Tokenizer::from_file(options.model + "/tokenizer.json")),
        model_(load_model(options.model, model_options(options))) {
    const ModelConfig& config = model_->config();
    if (options_.length > config.context)
      throw std::runtime_error("--length: the model's context has " + std::to_string(config.context) +
                               " tokens");
    for (const std::string& policy : options_.policies) {
      for (auto& s : settings_of(policy, config.router, false)) curves_.settings.push_back(s);
      defaults_.push_back(settings_of(policy, config.router, true).at(0));
      if (policy == "lynx" || policy == "energy") sensitivity_.policies.push_back(defaults_.back());
    }
    curves_.batches = options_.batches;
  }

  Results run() {
    describe();
    Progress progress(count(), options_.quiet);
    for (std::uint32_t seed = 1; seed <= options_.seeds; ++seed) run_seed(seed, progress);
    if (options_.has("tasks")) run_tasks(progress);
    if (options_.has("long")) {
      std::vector<PolicySetting> settings{settings_of("off", model_->config().router, true)};
      settings.insert(settings.end(), sensitivity_.policies.begin(), sensitivity_.policies.end());
      run_long(*model_, tokenizer_, topics_, settings, options_.long_requests, options_.long_tokens, results_,
               progress);
    }
    progress.done();
    return std::move(results_);
  }

 private:
  static ModelOptions model_options(const LabOptions& options) {
    ModelOptions out;
    out.backend.device = options.device;
    out.backend.threads = options.threads;
    out.max_rows = std::max(512U, options.length);
    out.max_logit_rows = std::max(64U, options.length);
    return out;
  }

  void describe() {
    const ModelConfig& config = model_->config();
    results_.model = options_.model;
    results_.text = options_.text == "own" ? "written by the exact model" : options_.text;
    results_.device = model_->traits().device;
    results_.date = today();
    results_.shape = config.router;
    results_.layers = config.layers;
    results_.documents = options_.documents;
    results_.prefix = options_.prefix;
    results_.length = options_.length;
    results_.seeds = options_.seeds;
    results_.expert_bytes = static_cast<double>(config.expert_bytes());
  }

  std::size_t count() const {
    std::size_t seed = 1;
    if (options_.has("curves")) seed += count_curves(curves_, options_.documents);
    if (options_.has("sensitivity")) seed += count_sensitivity(sensitivity_, model_->config().router);
    if (options_.has("affinity")) ++seed;
    return seed * options_.seeds + (options_.has("tasks") ? task_settings().size() : 0) +
           (options_.has("long") ? 1 + sensitivity_.policies.size() : 0);
  }

  std::vector<Document> documents(std::uint64_t seed) {
    const std::uint32_t vocab = model_->config().vocab;
    if (options_.text != "own")
      return read_held_out(options_.text, options_.documents, options_.length, vocab, seed);
    return write_documents(*model_, tokenizer_, topics_, options_.documents, options_.length, seed);
  }

  void run_seed(std::uint64_t seed, Progress& progress) {
    progress.begin("seed " + std::to_string(seed) + ": documents and the exact model");
    ExactRun exact(*model_, documents(seed), options_.prefix);
    add_exact(exact, results_);
    if (options_.has("affinity")) {
      progress.begin("affinity");
      measure_affinity(exact, options_.batches, seed, results_.affinity);
      measure_placement(exact, options_.batches, seed, results_.placement);
    }
    if (options_.has("curves")) measure_curves(exact, curves_, seed, results_, progress);
    if (options_.has("sensitivity")) measure_sensitivity(exact, sensitivity_, seed, results_, progress);
  }

  std::vector<PolicySetting> task_settings() const {
    std::vector<PolicySetting> settings = settings_of("off", model_->config().router, true);
    for (const PolicySetting& s : defaults_)
      if (s.policy.kind != PolicyKind::kOff) settings.push_back(s);
    return settings;
  }

  void run_tasks(Progress& progress) {
    auto tasks = read_tasks(options_.data + "/tasks.jsonl");
    if (options_.tasks > 0 && options_.tasks < tasks.size()) tasks.resize(options_.tasks);
    score_tasks(*model_, tokenizer_, tasks, task_settings(), options_.task_batch, results_, progress);
  }

  const LabOptions& options_;
  const Topics topics_;
  const Tokenizer tokenizer_;
  const std::unique_ptr<Model> model_;
  CurvePlan curves_;
  SensitivityPlan sensitivity_;
  std::vector<PolicySetting> defaults_;
  Results results_;
};

}  // namespace

Results run_laboratory(const LabOptions& options) { return Laboratory(options).run(); }

}  // namespace lynx
