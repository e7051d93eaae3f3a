#include <nlohmann/json.hpp>

#include "loadtest/quality/lab_report.h"

namespace lynx {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Estimate& e) {
  return {{"mean", e.mean()}, {"error", e.error()}, {"samples", e.samples()}};
}

Json json_of(const std::vector<Estimate>& list) {
  Json out = Json::array();
  for (const Estimate& e : list) out.push_back(json_of(e));
  return out;
}

Json json_of(const Cell& c) {
  return {{"policy", c.policy},
          {"setting", c.label},
          {"default", c.is_default},
          {"batch", c.batch},
          {"mix", c.mix},
          {"experts_before", json_of(c.routed)},
          {"experts_after", json_of(c.activated)},
          {"experts_before_by_layer", json_of(c.layer_routed)},
          {"experts_after_by_layer", json_of(c.layer_activated)},
          {"expert_bytes_saved_per_step", json_of(c.saved_bytes)},
          {"loss_change", json_of(c.loss_change)},
          {"top1_agreement", json_of(c.agreement)},
          {"kl_from_exact", json_of(c.kl)},
          {"mass", json_of(c.mass)},
          {"mass_worst_token", json_of(c.worst_token)},
          {"mass_worst_request", json_of(c.worst_request)},
          {"remapped", json_of(c.remapped)}};
}

Json sensitivity_of(const Results& r) {
  Json out;
  for (const RankLoss& x : r.ranks)
    out["ranks"].push_back({{"rank", x.rank},
                            {"loss_change", json_of(x.loss_change)},
                            {"top1_agreement", json_of(x.agreement)},
                            {"loss_change_by_confidence_quarter", json_of(x.by_confidence)}});
  for (const PhaseLoss& x : r.phases)
    out["phases"].push_back({{"policy", x.policy},
                             {"phase", x.phase},
                             {"loss_change", json_of(x.loss_change)},
                             {"kl_from_exact", json_of(x.kl)}});
  for (const ConfidenceLoss& x : r.confidence)
    out["confidence"].push_back(
        {{"policy", x.policy}, {"loss_change_by_confidence_quarter", json_of(x.quarters)}});
  for (const ExactCost& x : r.exact_cost)
    out["exact_rows"].push_back({{"batch", x.batch},
                                 {"exact_rows", x.exact_rows},
                                 {"experts_after", json_of(x.activated)},
                                 {"loss_change_of_others", json_of(x.others_loss_change)},
                                 {"mass_of_others", json_of(x.others_mass)}});
  return out;
}

Json generation_of(const Results& r) {
  Json out;
  for (const TaskScore& t : r.tasks) {
    Json kinds;
    for (const auto& [kind, score] : t.kinds) kinds[kind] = json_of(score);
    out["tasks"].push_back({{"setting", t.label},
                            {"batch", t.batch},
                            {"exact_match", json_of(t.all)},
                            {"same_answer_as_exact", json_of(t.same_as_exact)},
                            {"kinds", kinds}});
  }
  for (const LongRun& l : r.long_runs)
    out["long"].push_back({{"setting", l.label},
                           {"tokens_before_the_first_difference", json_of(l.same_prefix)},
                           {"exact_models_loss", json_of(l.exact_loss)},
                           {"distinct_4_grams", json_of(l.distinct)}});
  return out;
}

Json affinity_of(const Affinity& a) {
  Json out{{"rank_correlation_own", json_of(a.own)},
           {"rank_correlation_same_topic", json_of(a.same_topic)},
           {"rank_correlation_other", json_of(a.other)}};
  for (const auto& u : a.unions)
    out["experts"].push_back({{"batch", u.batch},
                              {"random", json_of(u.random)},
                              {"same_topic", json_of(u.same_topic)},
                              {"by_histogram", json_of(u.by_histogram)}});
  return out;
}

Json run_of(const PlacementGain::Run& run) {
  return {{"experts", json_of(run.experts)},
          {"experts_per_token", json_of(run.per_token)},
          {"fullest_against_mean", json_of(run.fullest)}};
}

Json placement_of(const std::vector<PlacementGain>& gains) {
  Json out = Json::array();
  for (const PlacementGain& gain : gains)
    out.push_back({{"slots", gain.batch},
                   {"least_loaded", run_of(gain.least_loaded)},
                   {"expert_affinity", run_of(gain.by_topic)},
                   {"expert_affinity_own_profile", run_of(gain.by_own)}});
  return out;
}

}  // namespace

std::string to_json(const Results& r) {
  Json out{{"model", r.model},
           {"text", r.text},
           {"device", r.device},
           {"date", r.date},
           {"experts", r.shape.experts},
           {"top_k", r.shape.top_k},
           {"layers", r.layers},
           {"documents", r.documents},
           {"prefix", r.prefix},
           {"length", r.length},
           {"seeds", r.seeds},
           {"expert_bytes", r.expert_bytes},
           {"exact_loss", json_of(r.exact_loss)},
           {"exact_accuracy", json_of(r.exact_accuracy)}};
  out["cells"] = Json::array();
  for (const Cell& c : r.cells) out["cells"].push_back(json_of(c));
  out["at_the_loss_of_lynx"] = Json::array();
  for (const EqualLoss& e : r.equal_loss)
    out["at_the_loss_of_lynx"].push_back({{"policy", e.policy},
                                          {"reference", e.reference},
                                          {"batch", e.batch},
                                          {"experts_change", json_of(e.experts_change)},
                                          {"mass_worst_request_change", json_of(e.worst_request_change)}});
  out["sensitivity"] = sensitivity_of(r);
  out["generation"] = generation_of(r);
  out["affinity"] = affinity_of(r.affinity);
  out["placement"] = placement_of(r.placement);
  return out.dump(2) + "\n";
}

}  // namespace lynx
