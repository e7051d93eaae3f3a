{{/* What a ScaledObject asks Prometheus, as YAML name: query. Takes a dict of root and component. Replicas grow in proportion
     to value / threshold, and the largest ask wins.
     budget-burn       how fast the error budget burns: 1 = exactly as fast as the objective allows. Prefill answers for
                       the time to the first token, decode for the time per token after it.
     predicted-busy    share of its time that a prefill worker computes, where it will be once one more could be ready
     predicted-batch   decode's mean batch over the largest, likewise: beyond it sequences wait
     predicted-kv      share of decode's KV blocks in use, likewise: beyond it reservations are refused
     `container` is the label that a PodMonitor or ServiceMonitor gives. */}}
{{- define "lynx.scalingQueries" -}}
{{- $values := .root.Values -}}
{{- $scaling := get $values.keda .component -}}
{{- $where := printf "namespace=%q,container=%q" .root.Release.Namespace .component -}}
{{- $slo := printf "namespace=%q,objective=%q" .root.Release.Namespace (eq .component "prefill" | ternary "ttft" "tpot") -}}
{{- $budget := subf 1.0 $scaling.objective | printf "%.6f" | float64 -}}
budget-burn: >-
  (sum(rate(lynx_slo_requests_total{ {{- $slo }},met="false"}[5m]))
  / (sum(rate(lynx_slo_requests_total{ {{- $slo }}}[5m])) > 0))
  / {{ $budget }} or vector(0)
{{- if eq .component "prefill" }}
predicted-busy: >-
  predict_linear(avg(rate(lynx_step_seconds_sum{ {{- $where }}}[1m]))[5m:15s], {{ $scaling.lookaheadSeconds }})
{{- else }}
predicted-batch: >-
  predict_linear((sum(rate(lynx_batch_size_sum{ {{- $where }}}[1m]))
  / (sum(rate(lynx_batch_size_count{ {{- $where }}}[1m])) > 0)
  / {{ $values.decode.config.max_batch | default 16 | int }} or vector(0))[5m:15s], {{ $scaling.lookaheadSeconds }})
predicted-kv: >-
  predict_linear((1 - sum(lynx_kv_blocks{ {{- $where }},state="free"})
  / sum(lynx_kv_blocks{ {{- $where }}}))[5m:15s], {{ $scaling.lookaheadSeconds }})
{{- end }}
{{- end -}}
