"""Decode and LYNX: what remapping saves, what it costs in router mass, and what a step takes."""
from .model import BLUE, DECODE, ROUTER, Dashboard, Panel, Query, Row, mean, quantile, rate, ratio

STEPS = f'sum (rate(lynx_step_seconds_count{{phase="decode", {DECODE}}}[$__range]))'


def by_layer(stage):
    return Query(f'sum by (layer) (rate(lynx_layer_experts_total{{stage="{stage}", {DECODE}}}[$__range]))\n'
                 f"/ on () group_left () ({STEPS} > 0)", stage, 1, 512)


def share(title, description, numerator, denominator, low, high):
    return Panel(title, description, "percentunit", [Query(ratio(numerator, denominator, "model", DECODE), "{{model}}", low, high)],
                 kind="stat", width=6, high=1, decimals=1, steps=[(None, BLUE)])


HEADLINE = Row("What LYNX does now", [
    share("Experts activated of those routed", "Below 100 %: so many of the experts that exact routing would read are read.",
          'lynx_unique_experts_sum{stage="activated"}', 'lynx_unique_experts_sum{stage="routed"}', 0.05, 1.2),
    share("Expert bytes avoided", "Of what exact routing would read from memory.",
          'lynx_expert_bytes_total{kind="avoided"}', "lynx_expert_bytes_total", 0, 1),
    share("Assignments remapped", "Token-to-expert assignments moved onto an expert outside the token's top-k.",
          "lynx_remapped_assignments_total", "lynx_assignments_total", 0, 1),
    share("Router mass retained", "Router probability that the plan keeps of the exact top-k: the price, 100 % is exact.",
          "lynx_retained_router_mass_sum", "lynx_retained_router_mass_count", 0.3, 1.0001),
])

EXPERTS = Row("Experts", [
    Panel("Unique experts per layer and step", "Mean over layers: routed by the model, activated after remapping. The gap is what LYNX saves.",
          "short", [Query(mean("lynx_unique_experts", "worker, stage", DECODE), "{{worker}} {{stage}}", 1, 512)], width=12,
          decimals=1),
    Panel("Unique experts by layer", "Mean per step over the time shown, all chosen workers together.", "short",
          [by_layer("routed"), by_layer("activated")], kind="barchart", width=12, label="layer", decimals=1),
    Panel("Expert bytes", "Read from memory by steps, and avoided by remapping. The sum is what exact routing would read.", "Bps",
          [Query(rate("lynx_expert_bytes_total", "kind", DECODE), "{{kind}}", 0, 1e14)], width=12, stacked=True),
    Panel("Expert bytes per output token", "Read, over the tokens that the steps computed: a fuller batch shares its experts.", "bytes",
          [Query(ratio('lynx_expert_bytes_total{kind="read"}', 'lynx_step_rows_sum{phase="decode"}', "worker", DECODE),
                 "{{worker}}", 1, 1e12)], width=12),
    Panel("Assignments remapped", "Share of token-to-expert assignments moved.", "percentunit",
          [Query(ratio("lynx_remapped_assignments_total", "lynx_assignments_total", "worker", DECODE), "{{worker}}", 0, 1)],
          width=12),
    Panel("Router mass retained", "Mean, and the lowest tenth of layer-steps. A falling tenth comes before a falling mean.",
          "percentunit",
          [Query(mean("lynx_retained_router_mass", "worker", DECODE), "{{worker}} mean", 0.3, 1.0001),
           Query(quantile(0.1, "lynx_retained_router_mass", "worker", DECODE), "{{worker}} p10", 0.1, 1.0001)],
          width=12, low=None, high=1),
])

DRIFT = Row("Drift guard", [
    Panel("Flips", "Sampled rows whose most likely token is another than the exact model's, of those sampled (lynx.drift_every).",
          "percentunit", [Query(ratio("lynx_drift_flips_total", "lynx_drift_kl_count", "worker", DECODE), "{{worker}}", 0, 1)]),
    Panel("Divergence from the exact model", "KL of a sampled row in nats per token: mean and p90. The guard holds the mean to "
          "lynx.drift_limit.", "short",
          [Query(mean("lynx_drift_kl", "worker", DECODE), "{{worker}} mean", -1e-3, 10),
           Query(quantile(0.9, "lynx_drift_kl", "worker", DECODE), "{{worker}} p90", 0, 10)]),
    Panel("Tightening", "Steps by which the guard has tightened the policy. 0: as configured. At the last step routing is exact.",
          "short", [Query(f"max by (worker) (lynx_drift_tightening{{{DECODE}}})", "{{worker}}", 0, 8)], decimals=0),
])


def receipt(histogram, legend, low, high):
    return Query(mean(f"lynx_receipt_{histogram}", "slo_class", ROUTER), legend, low, high)


RECEIPTS = Row("Receipts: what company did to the sequences that asked (lynx.receipt)", [
    Panel("Router mass kept", "By class, mean over sequences: of all their decode steps, and of the worst step of each.", "percentunit",
          [receipt('router_mass{of="mean"}', "{{slo_class}} mean", 0.3, 1.0001),
           receipt('router_mass{of="worst_step"}', "{{slo_class}} worst step", 0.1, 1.0001)], low=None, high=1),
    Panel("Assignments remapped, by class", "Share of a sequence's assignments, mean over sequences.", "percentunit",
          [receipt("remapped_share", "{{slo_class}}", 0, 1)]),
    Panel("Company", "Sequences in a decode step of a sequence, itself among them: mean over its steps, then over sequences.", "short",
          [receipt("batch_size", "{{slo_class}}", 1, 4096)], decimals=1),
])

STEP = Row("Steps", [
    Panel("Step time against its model", "Mean measured, and what the step-cost model expected before each step ran. "
          "Measured above expected for long: the machine became slower.", "s",
          [Query(mean('lynx_step_seconds{phase="decode"}', "worker", DECODE), "{{worker}} measured", 1e-6, 10),
           Query(mean("lynx_step_predicted_seconds", "worker", DECODE), "{{worker}} expected", 0, 10)], width=12),
    Panel("Step time, p50 and p99", "A long p99 stalls every stream of the batch.", "s",
          [Query(quantile(0.5, 'lynx_step_seconds{phase="decode"}', "worker", DECODE), "{{worker}} p50", 1e-6, 10),
           Query(quantile(0.99, 'lynx_step_seconds{phase="decode"}', "worker", DECODE), "{{worker}} p99", 1e-6, 10)], width=12),
    Panel("Error of the step model", "Mean distance between expected and measured, of the step time. Admission leans on this model.",
          "percentunit", [Query(ratio("lynx_step_prediction_error_seconds_sum", 'lynx_step_seconds_sum{phase="decode"}', "worker",
                                      DECODE), "{{worker}}", 0, 20)]),
    Panel("Cost of a step that reads nothing", "a of a + b · expert bytes + c · KV bytes: launches, dense layers, the host.", "s",
          [Query(f"lynx_step_cost_fixed_seconds{{{DECODE}}}", "{{worker}}", -1e3, 1e3)], low=None),
    Panel("Cost per gigabyte read", "b and c. Hold it against the memory's bandwidth: 4.5 TB/s is 0.22 ms.", "s",
          [Query(f"lynx_step_cost_seconds_per_gigabyte{{{DECODE}}}", "{{worker}} {{kind}}", -1e6, 1e6)], low=None),
])

BATCH = Row("Batch", [
    Panel("Batch size", "Sequences of a step: mean and p99, and the limit (max_batch).", "short",
          [Query(mean('lynx_batch_size{phase="decode"}', "worker", DECODE), "{{worker}} mean", 1, 4096),
           Query(quantile(0.99, 'lynx_batch_size{phase="decode"}', "worker", DECODE), "{{worker}} p99", 0, 4096),
           Query(f"max by (worker) (lynx_sequence_slots{{{DECODE}}})", "{{worker}} limit", 1, 4096)], width=12, decimals=1),
    Panel("CUDA-graph bucket", "Rows that the device computed in a step, padding included (on a CPU: none), and the tokens among them. "
          "Padding rows read no experts.", "short",
          [Query(mean('lynx_step_computed_rows{phase="decode"}', "worker", DECODE), "{{worker}} bucket", 1, 4096),
           Query(mean('lynx_step_rows{phase="decode"}', "worker", DECODE), "{{worker}} tokens", 1, 4096)], width=12, decimals=1),
    Panel("Busy", "Share of the time with a step under way. Full batches and 100 % busy: saturated.", "percentunit",
          [Query(rate('lynx_step_seconds_sum{phase="decode"}', "worker", DECODE), "{{worker}}", 0, 1.3)], high=1),
    Panel("Decode tokens", "Tokens that the steps computed.", "short",
          [Query(rate('lynx_step_rows_sum{phase="decode"}', "worker", DECODE), "{{worker}}", 0, 1e6)], stacked=True),
    Panel("Sequences", "In the engine, and waiting for their KV.", "short",
          [Query(f"sum by (worker, state) (lynx_sequences{{{DECODE}}})", "{{worker}} {{state}}", 0, 1e4)], stacked=True),
])

DASHBOARD = Dashboard("lynx-decode", "Lynx / Decode and LYNX", "What remapping saves and costs, drift guard, receipts, steps, batches.",
                      [HEADLINE, EXPERTS, DRIFT, RECEIPTS, STEP, BATCH])
