"""Service: what clients get, and whether it is what they were promised."""
from .model import CLUSTER, GREEN, ORANGE, RED, ROUTER, Dashboard, Panel, Query, Row, mean, quantile, rate, ratio

DAY = 86400
ALL_PREFILL = CLUSTER + ', role="prefill"'


def latency(title, metric, description, objective=None):
    queries = [
        Query(quantile(0.5, metric, "slo_class", ROUTER), "{{slo_class}} p50", 0, 600),
        Query(quantile(0.99, metric, "slo_class", ROUTER), "{{slo_class}} p99", 0, 600),
    ]
    if objective:
        queries.append(Query(f'max by (slo_class) (lynx_slo_objective_seconds{{objective="{objective}", {ROUTER}}})',
                             "{{slo_class}} objective", 0.001, DAY))
    return Panel(title, description, "s", queries, width=12, log=objective is not None)


PROMISE = Row("The promise", [
    Panel("Attainment now", "Share of the last five minutes' requests that met both objectives of their class. No value: no requests.",
          "percentunit", [Query(f'lynx:slo_attainment:ratio_rate5m{{objective="all", {CLUSTER}}}', "{{slo_class}}", 0, 1)],
          kind="stat", width=12, high=1, decimals=2, steps=[(None, RED), (0.95, ORANGE), (0.99, GREEN)]),
    Panel("Error budget left, 30 days", "1 = nothing used, 0 = all of it; below 0 the promise of these 30 days is broken.",
          "percentunit", [Query(f"lynx:slo_budget_left:ratio_rate30d{{{CLUSTER}}}", "{{slo_class}}", -99, 1)],
          kind="stat", width=12, low=None, decimals=1, steps=[(None, RED), (0.1, ORANGE), (0.5, GREEN)]),
    Panel("Attainment by objective", "TTFT and TPOT apart. A request that was refused or failed has met neither.", "percentunit",
          [Query(ratio('lynx_slo_requests_total{met="true"}', "lynx_slo_requests_total", "slo_class, objective", ROUTER),
                 "{{slo_class}} {{objective}}", 0, 1)], width=12, low=None, high=1),
    Panel("Error budget burn", "How many times faster than allowed the budget goes. Paged: above 14.4 over an hour, above 6 over six hours.",
          "short", [Query(f"lynx:slo_burn:ratio_rate5m{{{CLUSTER}}}", "{{slo_class}} 5 m", 0, 100),
                    Query(f"lynx:slo_burn:ratio_rate1h{{{CLUSTER}}}", "{{slo_class}} 1 h", 0, 100),
                    Query(f"lynx:slo_burn:ratio_rate6h{{{CLUSTER}}}", "{{slo_class}} 6 h", 0, 100)],
          width=12, steps=[(None, "text"), (6, ORANGE), (14.4, RED)]),
])

TRAFFIC = Row("Traffic", [
    Panel("Requests by status", "API requests by HTTP status; 499: the client hung up. 429 and 503: refused.", "reqps",
          [Query(rate("lynx_requests_total", "code", ROUTER), "{{code}}", 0, 1e5)], stacked=True),
    Panel("Sequences and goodput", "Sequences ended (n = 4 counts four times), and those of them inside both objectives.", "reqps",
          [Query(rate('lynx_slo_requests_total{objective="all"}', "model", ROUTER), "ended", 0, 1e5),
           Query(rate('lynx_slo_requests_total{objective="all", met="true"}', "model", ROUTER), "goodput", 0, 1e5)]),
    Panel("Output tokens", "Tokens sent to clients per second: the first ones, and those that follow.", "short",
          [Query(rate("lynx_ttft_seconds_count", "model", ROUTER), "first", 0, 1e6),
           Query(rate("lynx_itl_seconds_count", "model", ROUTER), "following", 0, 1e7)], stacked=True),
    Panel("Waiting in the router", "Sequences that wait for workers, now.", "short",
          [Query(f'sum by (slo_class) (lynx_queue_depth{{slo_class!="", {ROUTER}}})', "{{slo_class}}", 0, 1e5)], stacked=True),
    Panel("Refused by the router", "By reason. queue_full and queue_timeout: overload. no_workers: nobody there.", "reqps",
          [Query(rate("lynx_rejected_total", "reason", ROUTER), "{{reason}}", 0, 1e5)], stacked=True),
    Panel("Retries and resumes", "Attempts repeated before a token reached the client, and streams that went on elsewhere after one.",
          "short", [Query(rate("lynx_retries_total", "model", ROUTER), "retries/s", 0, 1e5),
                    Query(rate("lynx_resumes_total", "model", ROUTER), "resumes/s", 0, 1e5)]),
])

LATENCY = Row("Latency, where the client sees it", [
    latency("Time to first token", "lynx_ttft_seconds",
            "From the request's arrival to the write of its first token: queue, prefill and hand-over are in it.", "ttft"),
    latency("Time per output token", "lynx_tpot_seconds", "Mean of the tokens after the first, per sequence.", "tpot"),
    latency("Inter-token latency", "lynx_itl_seconds",
            "Between two tokens. The second token's holds the KV transfer's tail and the wait for the decode batch."),
    latency("End to end", "lynx_e2e_seconds", "From arrival to the last token."),
    Panel("Where TTFT goes", "Means, stacked. What is left of TTFT above the stack is leases and network.", "s",
          [Query(mean("lynx_queue_seconds", "model", ROUTER), "router queue", 0, 600),
           Query(mean("lynx_prefill_queue_seconds", "model", ALL_PREFILL),
                 "prefill queue", 0, 600),
           Query(mean("lynx_prefill_compute_seconds", "model", ALL_PREFILL),
                 "prefill compute", 0, 600)], width=12, stacked=True),
    Panel("TTFT, mean", "To hold against the stack beside it.", "s",
          [Query(mean("lynx_ttft_seconds", "model", ROUTER), "TTFT", 0, 600)], width=12),
])

WORKERS = Row("Workers", [
    Panel("Workers", "As the router counts them. away: no heartbeats, or draining. put_aside: its KV transfers keep failing.", "short",
          [Query(f"max by (role, state) (lynx_workers{{{CLUSTER}}})", "{{role}} {{state}}", 0, 1e4)], decimals=0),
    Panel("Sequences placed", "How often the router picked each worker.", "reqps",
          [Query(f'sum by (worker) (rate(lynx_selected_total{{worker=~"$worker", {CLUSTER}}}[$__rate_interval]))', "{{worker}}",
                 0, 1e5)]),
    Panel("Versions", "What runs now. A line without a worker is a router.", "short",
          [Query(f"count by (role, worker, version) (lynx_build_info{{{CLUSTER}}})", "", 1, 100)], kind="table"),
])

DASHBOARD = Dashboard("lynx-service", "Lynx / Service", "Whether the SLO holds: promise, traffic, latency, workers.",
                      [PROMISE, TRAFFIC, LATENCY, WORKERS])
