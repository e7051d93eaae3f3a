#include "loadtest/quality/placement.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "common/core/check.h"
#include "services/router/worker_table.h"

namespace lynx {
namespace {

constexpr std::uint32_t kArrivals = 16;  // requests of a run, for each slot of the fleet

enum class Knowledge : std::uint8_t { kNothing, kTopic, kOwn };

// The documents as requests: which experts their tokens use, and their profiles.
class Requests {
 public:
  explicit Requests(const ExactRun& exact) : exact_(exact), config_(exact.model_config()) {
    for (std::size_t d = 0; d < exact.documents().size(); ++d) profiles_.push_back(profile_of(d));
  }
  std::span<const std::uint16_t> experts(std::size_t d, std::uint32_t layer, std::uint32_t row) const {
    const std::size_t k = config_.router.top_k, rows = exact_.length() - 1;
    return std::span(exact_.exact(d).top).subspan((layer * rows + row) * k, k);
  }
  const SharedProfile& profile(std::size_t d) const { return profiles_[d]; }
  std::uint64_t topic(std::size_t d) const { return exact_.documents()[d].topic; }
  const ExactRun& exact() const { return exact_; }
  const ModelConfig& config() const { return config_; }

 private:
  SharedProfile profile_of(std::size_t d) const {
    const std::size_t experts_per_layer = config_.router.experts;
    std::vector<std::uint32_t> counts(config_.layers * experts_per_layer, 0);
    for (std::uint32_t l = 0; l < config_.layers; ++l)
      for (std::uint32_t row = 0; row < exact_.first_row(); ++row)
        for (const std::uint16_t e : experts(d, l, row)) ++counts[l * experts_per_layer + e];
    auto profile = std::make_shared<ExpertProfile>();
    const std::uint32_t rows = std::max(1U, exact_.first_row());
    for (const std::uint32_t count : counts)
      profile->push_back(static_cast<std::uint8_t>(count * 255 / rows));
    return profile;
  }

  const ExactRun& exact_;
  const ModelConfig& config_;
  std::vector<SharedProfile> profiles_;
};

struct Outcome {
  double experts = 0;  // summed over workers, layers and steps
  double layer_steps = 0, tokens = 0;
  double fullest = 0, steps = 0;  // the fullest worker's batch against the mean, summed over steps
};

class Fleet {
 public:
  Fleet(const Requests& requests, std::uint32_t batch, Knowledge knowledge, std::uint64_t seed)
      : requests_(requests),
        knowledge_(knowledge),
        slots_(kFleet * batch),
        random_(seed),
        table_(settings(knowledge, slots_)),
        memory_(std::size_t{64} << 20U) {
    add(1, WorkerRole::kPrefill, slots_);
    for (std::uint32_t i = 0; i < kFleet; ++i) add(2 + i, WorkerRole::kDecode, batch);
    order_.resize(requests.exact().documents().size());
    std::iota(order_.begin(), order_.end(), 0U);
  }

  Outcome run() {
    const std::uint32_t arrivals = kArrivals * slots_;
    for (std::uint32_t arrived = 0; arrived < arrivals;) {
      for (; running_.size() < slots_ * 3 / 4; ++arrived) arrive(arrived);
      step();
    }
    return outcome_;
  }

 private:
  struct Running {
    std::size_t document = 0;
    std::uint32_t row = 0, end = 0;
    Placement placement;
  };

  static WorkerTableConfig settings(Knowledge knowledge, std::uint32_t slots) {
    WorkerTableConfig out;
    out.policy = knowledge == Knowledge::kNothing ? least_loaded : expert_affinity;
    out.prefill_slots = slots;
    return out;
  }

  void add(WorkerId id, WorkerRole role, std::uint32_t batch) {
    WorkerInfo info;
    info.name = std::to_string(id);
    info.incarnation = 1;
    info.role = role;
    info.context_tokens = info.block_tokens = 1;
    info.total_blocks = 1U << 20U;
    info.max_batch = batch;
    table_.add(id, info, {});
  }

  // The same documents and lengths whatever the policy: they are drawn in order of arrival.
  void arrive(std::uint32_t number) {
    const std::size_t place = number % order_.size();
    if (place == 0) std::shuffle(order_.begin(), order_.end(), random_);
    const std::size_t d = order_[place];
    const ExactRun& exact = requests_.exact();
    const auto steps = static_cast<std::uint32_t>(1 + random_() % exact.measured());
    const std::uint64_t key = requests_.topic(d);
    WorkerTable::Need need{1, 1, {}};
    if (knowledge_ == Knowledge::kTopic) need.experts = memory_.predict({&key, 1});
    if (knowledge_ == Knowledge::kOwn) need.experts = requests_.profile(d);
    auto placement = table_.place(need, {});
    LYNX_CHECK(placement.has_value(), "a fleet that is not full has room");
    table_.release_prefill(*placement);
    if (knowledge_ != Knowledge::kNothing) table_.set_experts(*placement, requests_.profile(d));
    memory_.learn({&key, 1}, requests_.profile(d));
    running_.push_back({d, exact.first_row(), exact.first_row() + steps, *placement});
  }

  void step() {
    std::map<WorkerId, std::vector<const Running*>> batches;
    for (const Running& r : running_) batches[r.placement.decode].push_back(&r);
    std::size_t fullest = 0;
    for (const auto& [worker, batch] : batches) {
      fullest = std::max(fullest, batch.size());
      for (std::uint32_t l = 0; l < requests_.config().layers; ++l) outcome_.experts += unite(batch, l);
      outcome_.layer_steps += requests_.config().layers;
    }
    outcome_.tokens += static_cast<double>(running_.size());
    outcome_.fullest += static_cast<double>(fullest * kFleet) / static_cast<double>(running_.size());
    ++outcome_.steps;
    for (Running& r : running_)
      if (++r.row == r.end) table_.release_decode(r.placement);
    std::erase_if(running_, [](const Running& r) { return r.row == r.end; });
  }

  double unite(const std::vector<const Running*>& batch, std::uint32_t layer) const {
    std::vector<std::uint8_t> seen(requests_.config().router.experts, 0);
    for (const Running* r : batch)
      for (const std::uint16_t e : requests_.experts(r->document, layer, r->row)) seen[e] = 1;
    return static_cast<double>(std::count(seen.begin(), seen.end(), 1));
  }

  const Requests& requests_;
  const Knowledge knowledge_;
  const std::uint32_t slots_;
  std::mt19937_64 random_;
  WorkerTable table_;
  ProfileMemory memory_;
  std::vector<std::size_t> order_;
  std::vector<Running> running_;
  Outcome outcome_;
};

}  // namespace

void measure_placement(const ExactRun& exact, const std::vector<std::uint32_t>& batches, std::uint64_t seed,
                       std::vector<PlacementGain>& gains) {
  const Requests requests(exact);
  gains.resize(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    PlacementGain& gain = gains[i];
    gain.batch = batches[i];
    const auto measure = [&](Knowledge knowledge, PlacementGain::Run& run) {
      const Outcome o = Fleet(requests, batches[i], knowledge, seed).run();
      run.experts.add(o.experts / o.layer_steps);
      run.per_token.add(o.experts / o.tokens / requests.config().layers);
      run.fullest.add(o.fullest / o.steps);
    };
    measure(Knowledge::kNothing, gain.least_loaded);
    measure(Knowledge::kTopic, gain.by_topic);
    measure(Knowledge::kOwn, gain.by_own);
  }
}

}  // namespace lynx
