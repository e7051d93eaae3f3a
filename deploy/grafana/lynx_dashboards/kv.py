"""KV and transport: where the blocks are, and how KV gets from prefill to decode."""
from .model import BLUE, DECODE, GREEN, PREFILL, RED, WORKER, Dashboard, Panel, Query, Row, mean, quantile, rate, ratio

POOLS = Row("Pools", [
    Panel("Blocks taken", "Of each worker's pool.", "percentunit",
          [Query(f'1 - sum by (role, worker) (lynx_kv_blocks{{state="free", {WORKER}}})\n'
                 f"/ sum by (role, worker) (lynx_kv_blocks{{{WORKER}}})", "{{worker}}", 0, 1)], width=12, high=1),
    Panel("Blocks by state, decode", "leased: promised; receiving: KV on its way; active: decoding; quarantined: a write that may still land.",
          "short", [Query(f'sum by (state) (lynx_kv_blocks{{state!="free", {DECODE}}})', "{{state}}", 0, 1e7)], width=12,
          stacked=True, decimals=0),
    Panel("Orphan blocks", "Taken, but of no request. A moment is fine (quarantine); minutes are a leak.", "short",
          [Query(f"max by (worker) (lynx_kv_orphan_blocks{{{WORKER}}})", "{{worker}}", 0, 0)], kind="stat", width=12,
          decimals=0, steps=[(None, GREEN), (1, RED)]),
    Panel("Transport", "What UCX chose for KV, and what it was allowed to choose from.", "short",
          [Query(f"max by (worker, allowed, chosen) (lynx_kv_transport_info{{{WORKER}}} == 1)",
                 "{{worker}}: {{chosen}} (allowed: {{allowed}})", 1, 1)],
          kind="stat", width=12, decimals=0, names_only=True, steps=[(None, BLUE)]),
])

LEASES = Row("Leases", [
    Panel("Leases that live", "On a decode worker: sequences that hold blocks. On a prefill worker: prompts.", "short",
          [Query(f"max by (worker) (lynx_kv_leases{{{WORKER}}})", "{{worker}}", 0, 1e6)], decimals=0),
    Panel("Leases granted", "Per second.", "short",
          [Query(rate("lynx_kv_leases_granted_total", "worker", WORKER), "{{worker}}", 0, 1e5)]),
    Panel("Leases expired", "Their KV did not arrive in time. Anything above zero costs a client a retry.", "short",
          [Query(rate("lynx_kv_leases_expired_total", "worker", DECODE), "{{worker}}", 0, 1e5)]),
    Panel("Refused by workers", "No room now: no_blocks and batch_full on decode, queue_full on prefill. The router asks another.", "reqps",
          [Query(rate("lynx_rejected_total", "reason", WORKER), "{{reason}}", 0, 1e5)], width=12, stacked=True),
    Panel("Ended with a fault", "Requests that a worker gave up, by cause.", "reqps",
          [Query(rate("lynx_ended_total", "code", WORKER), "{{code}}", 0, 1e5)], width=12, stacked=True),
])

TRANSFER = Row("Transfer", [
    Panel("Transfer time", "First push posted to last one acknowledged, per prompt. Most of it hides behind prefill's compute.", "s",
          [Query(quantile(0.5, "lynx_kv_transfer_seconds", "worker", PREFILL), "{{worker}} p50", 0, 60),
           Query(quantile(0.99, "lynx_kv_transfer_seconds", "worker", PREFILL), "{{worker}} p99", 0, 60)]),
    Panel("Transfer time that shows", "What is left after the last layer was computed: the client waits for this before its second token.",
          "s", [Query(quantile(0.5, "lynx_kv_transfer_exposed_seconds", "worker", PREFILL), "{{worker}} p50", 0, 60),
                Query(quantile(0.99, "lynx_kv_transfer_exposed_seconds", "worker", PREFILL), "{{worker}} p99", 0, 60)]),
    Panel("Overlap", "Share of the time with a push under way that lies within the prompt's compute. Short prompts have little to hide in.",
          "percentunit", [Query(mean("lynx_kv_push_overlap_ratio", "worker", PREFILL), "{{worker}}", 0, 1)], high=1),
    Panel("Bytes moved", "KV that landed, by the transport that carried it.", "Bps",
          [Query(rate("lynx_kv_transfer_bytes_total", "worker, transport", PREFILL), "{{worker}} {{transport}}", 0, 1e12)],
          width=12, stacked=True),
    Panel("Failed pushes", "By cause, as the sender saw it. The runbook of LynxKvHandOverFails says what each means.", "short",
          [Query(rate("lynx_kv_transfer_failures_total", "reason", PREFILL), "{{reason}}", 0, 1e5)], width=12, stacked=True),
])

PREFILLING = Row("Prefill", [
    Panel("Waiting for prefill", "Requests that wait for blocks on a prefill worker.", "short",
          [Query(f"max by (worker) (lynx_queue_depth{{{PREFILL}}})", "{{worker}}", 0, 1e5)], decimals=0),
    Panel("Prefill queue and compute, p99", "Arrival to first chunk; first chunk to first token.", "s",
          [Query(quantile(0.99, "lynx_prefill_queue_seconds", "worker", PREFILL), "{{worker}} queue", 0, 600),
           Query(quantile(0.99, "lynx_prefill_compute_seconds", "worker", PREFILL), "{{worker}} compute", 0, 600)]),
    Panel("Prefill tokens", "Prompt tokens computed per second.", "short",
          [Query(rate('lynx_step_rows_sum{phase="prefill"}', "worker", PREFILL), "{{worker}}", 0, 1e7)], stacked=True),
    Panel("Prefix cache", "Share of the prompts' tokens whose KV an earlier prompt had left behind.", "percentunit",
          [Query(ratio('lynx_prefix_cache_tokens_total{outcome="hit"}', "lynx_prefix_cache_tokens_total", "worker", PREFILL),
                 "{{worker}}", 0, 1)], width=12, high=1),
    Panel("What computes", "Each worker's device, and how KV gets between the pool that is pushed and the device.", "short",
          [Query(f"count by (worker, device, kv_path) (lynx_device_info{{{WORKER}}})", "", 1, 1)], kind="table", width=12),
])

DASHBOARD = Dashboard("lynx-kv", "Lynx / KV and transport", "Pools, leases, transfers, prefill.",
                      [POOLS, LEASES, TRANSFER, PREFILLING])
