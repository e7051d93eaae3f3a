#include "loadtest/quality/report_tables.h"

#include <cstdio>

namespace lynx {
namespace {

std::string number(double x, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

std::string show(const Estimate& e, int digits, double scale = 1) {
  if (e.samples() == 0) return "-";
  std::string text = number(scale * e.mean(), digits);
  if (e.samples() > 1) text += " ± " + number(scale * e.error(), digits);
  return text;
}

ReportTable cells_table(const Results& r, const std::string& mix) {
  ReportTable t{
      .title = mix == "mixed" ? "Policies, mixed batches" : "Policies, batches of one topic",
      .note =
          "Experts of a layer and step, before and after; loss in nats per token against the exact model.",
      .head = {"B", "policy", "experts before", "after", "MB saved a step", "loss change", "top-1 equal, %",
               "KL", "remapped, %", "mass kept, %", "worst request, %", "worst token, %"},
      .rows = {}};
  for (const Cell& c : r.cells)
    if (c.mix == mix)
      t.rows.push_back({std::to_string(c.batch), c.label + (c.is_default ? " *" : ""), show(c.routed, 1),
                        show(c.activated, 1), show(c.saved_bytes, 2, 1e-6), show(c.loss_change, 4),
                        show(c.agreement, 1, 100), show(c.kl, 4), show(c.remapped, 1, 100),
                        show(c.mass, 1, 100), show(c.worst_request, 1, 100), show(c.worst_token, 1, 100)});
  return t;
}

ReportTable layers_table(const Results& r) {
  ReportTable t{.title = "Experts by layer, mixed batches, default settings",
                .note = "",
                .head = {"B", "policy"},
                .rows = {}};
  for (std::uint32_t l = 0; l < r.layers; ++l) t.head.push_back("layer " + std::to_string(l));
  for (const Cell& c : r.cells) {
    if (c.mix != "mixed" || !c.is_default) continue;
    t.rows.push_back({std::to_string(c.batch), c.label});
    for (const Estimate& e : c.layer_activated) t.rows.back().push_back(show(e, 1));
  }
  return t;
}

ReportTable equal_loss_table(const Results& r) {
  ReportTable t{
      .title = "At the loss of lynx",
      .note = "Interpolated between the settings of each policy, in mixed batches; errors over seeds.",
      .head = {"B", "policy", "at the loss of", "experts against it, %", "mass of the worst request, points"},
      .rows = {}};
  for (const EqualLoss& e : r.equal_loss)
    t.rows.push_back({std::to_string(e.batch), e.policy, e.reference, show(e.experts_change, 1, 100),
                      show(e.worst_request_change, 1, 100)});
  return t;
}

void add_quarters(std::vector<std::string>& row, const std::vector<Estimate>& quarters) {
  for (const Estimate& e : quarters) row.push_back(show(e, 4));
}

ReportTable ranks_table(const Results& r) {
  ReportTable t{
      .title = "One rank denied to every token",
      .note = "Loss change, also by quarters of the tokens: from the least to the most confident router.",
      .head = {"rank", "loss change", "top-1 equal, %", "least confident", "second", "third",
               "most confident"},
      .rows = {}};
  for (const RankLoss& x : r.ranks) {
    t.rows.push_back({std::to_string(x.rank), show(x.loss_change, 4), show(x.agreement, 1, 100)});
    add_quarters(t.rows.back(), x.by_confidence);
  }
  return t;
}

ReportTable phases_table(const Results& r) {
  ReportTable t{.title = "Remapping in decode, or in prefill",
                .note =
                    "The same number of rows: those that predict, or those right before them, whose keys and "
                    "values stay.",
                .head = {"policy", "phase", "loss change", "KL"},
                .rows = {}};
  for (const PhaseLoss& x : r.phases)
    t.rows.push_back({x.policy, x.phase, show(x.loss_change, 4), show(x.kl, 4)});
  return t;
}

ReportTable confidence_table(const Results& r) {
  ReportTable t{.title = "Loss change by the router's confidence",
                .note = "Quarters of the tokens.",
                .head = {"policy", "least confident", "second", "third", "most confident"},
                .rows = {}};
  for (const ConfidenceLoss& x : r.confidence) {
    t.rows.push_back({x.policy});
    add_quarters(t.rows.back(), x.quarters);
  }
  return t;
}

ReportTable exact_table(const Results& r) {
  ReportTable t{.title = "Rows that ask for exactness, and what the others pay",
                .note = "",
                .head = {"B", "exact rows", "experts", "loss change of the others", "their mass kept, %"},
                .rows = {}};
  for (const ExactCost& x : r.exact_cost)
    t.rows.push_back({std::to_string(x.batch), std::to_string(x.exact_rows), show(x.activated, 1),
                      show(x.others_loss_change, 4), show(x.others_mass, 1, 100)});
  return t;
}

ReportTable tasks_table(const Results& r) {
  ReportTable t{.title = "Generated tasks, decoded in batches by the engine",
                .note = "Greedy; prefill exact.",
                .head = {"B", "policy", "exact match, %", "same answer as exact, %"},
                .rows = {}};
  for (const TaskScore& s : r.tasks)
    t.rows.push_back({std::to_string(s.batch), s.label, show(s.all, 2, 100), show(s.same_as_exact, 2, 100)});
  return t;
}

ReportTable long_table(const Results& r) {
  ReportTable t{.title = "Long greedy generations",
                .note = "",
                .head = {"policy", "tokens before the first difference", "loss under the exact model",
                         "distinct 4-grams, %"},
                .rows = {}};
  for (const LongRun& l : r.long_runs)
    t.rows.push_back({l.label, show(l.same_prefix, 1), show(l.exact_loss, 4), show(l.distinct, 1, 100)});
  return t;
}

ReportTable correlation_table(const Results& r) {
  ReportTable t{
      .title = "Does the prefill histogram predict the experts of decode?",
      .note =
          "Rank correlation over the experts of a layer: with the request's own decode, with that of a "
          "request of the same topic, and of another.",
      .head = {"layer", "own", "same topic", "another topic"},
      .rows = {}};
  for (std::size_t l = 0; l < r.affinity.own.size(); ++l)
    t.rows.push_back({std::to_string(l), show(r.affinity.own[l], 3), show(r.affinity.same_topic[l], 3),
                      show(r.affinity.other[l], 3)});
  return t;
}

ReportTable union_table(const Results& r) {
  ReportTable t{.title = "Experts of a batch, exact routing, by who is in it",
                .note = "By histogram: batches put together greedily by the likeness of prefill histograms.",
                .head = {"B", "random", "same topic", "by histogram"},
                .rows = {}};
  for (const auto& u : r.affinity.unions)
    t.rows.push_back(
        {std::to_string(u.batch), show(u.random, 2), show(u.same_topic, 2), show(u.by_histogram, 2)});
  return t;
}

ReportTable placement_table(const Results& r) {
  ReportTable t{
      .title = "Experts of a worker's layer and step, by placement",
      .note =
          "Four decode workers, three quarters full, exact routing, the same arrivals. Expert "
          "affinity knows what earlier requests of the topic used, or the request's own profile. "
          "In brackets: experts read for each token and layer; the fullest worker against the mean.",
      .head = {"slots", "least_loaded", "expert_affinity", "with its own profile"},
      .rows = {}};
  const auto cell = [](const PlacementGain::Run& run) {
    return show(run.experts, 2) + " (" + show(run.per_token, 2) + "; " + show(run.fullest, 2) + ")";
  };
  for (const PlacementGain& gain : r.placement)
    t.rows.push_back(
        {std::to_string(gain.batch), cell(gain.least_loaded), cell(gain.by_topic), cell(gain.by_own)});
  return t;
}

}  // namespace

std::string headline_of(const Results& r) {
  return r.model + ": " + std::to_string(r.layers) + " layers of " + std::to_string(r.shape.experts) +
         " experts, top-" + std::to_string(r.shape.top_k) + "; " + std::to_string(r.seeds) + " seeds of " +
         std::to_string(r.documents) + " documents (" + r.text + "), tokens " + std::to_string(r.prefix) +
         " to " + std::to_string(r.length) + " measured; exact loss " + show(r.exact_loss, 4) +
         " nats per token, next-token accuracy " + show(r.exact_accuracy, 1, 100) + " %; on " + r.device +
         ". Errors are one standard error. * marks default settings.";
}

std::vector<ReportTable> tables_of(const Results& r) {
  std::vector<ReportTable> all{
      equal_loss_table(r),  cells_table(r, "mixed"), cells_table(r, "alike"), layers_table(r), ranks_table(r),
      phases_table(r),      confidence_table(r),     exact_table(r),          tasks_table(r),  long_table(r),
      correlation_table(r), union_table(r),          placement_table(r)};
  std::erase_if(all, [](const ReportTable& t) { return t.rows.empty(); });
  return all;
}

}  // namespace lynx
