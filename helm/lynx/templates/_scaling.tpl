{{/* What a ScaledObject asks Prometheus, as YAML name: query. Takes a dict of root and component. Replicas grow in proportion
     to value / threshold, and the largest ask wins.
     budget-burn       how fast the error budget burns: 1 = exactly as fast as the objective allows. Prefill answers for
                       the time to the first token, decode for the time per token after it.
     The others say where a share of 1 will be by the time that one more worker could be ready:
     predicted-busy    share of its time that a prefill worker computes
     predicted-batch   decode's mean batch, of the largest: beyond it sequences wait
     predicted-kv      decode's KV blocks in use: beyond them reservations are refused
     predicted-step    the step time that decode's cost model expects, of the tightest TPOT objective */}}
{{- define "lynx.scalingQueries" -}}
{{- $values := .root.Values -}}
{{- $scaling := get $values.keda .component -}}
{{- $all := printf "namespace=%q,model=%q" .root.Release.Namespace $values.model.name -}}
{{- $where := printf "%s,role=%q" $all .component -}}
{{- $slo := printf "%s,objective=%q" $all (eq .component "prefill" | ternary "ttft" "tpot") -}}
{{- $budget := subf 1.0 $scaling.objective | printf "%.6f" | float64 -}}
{{- $ahead := int $scaling.lookaheadSeconds -}}
budget-burn: >-
  (sum(rate(lynx_slo_requests_total{ {{- $slo }},met="false"}[5m]))
  / (sum(rate(lynx_slo_requests_total{ {{- $slo }}}[5m])) > 0))
  / {{ $budget }} or vector(0)
{{- if eq .component "prefill" }}
predicted-busy: >-
  predict_linear(avg(rate(lynx_step_seconds_sum{ {{- $where }}}[1m]))[5m:15s], {{ $ahead }})
{{- else }}
predicted-batch: >-
  predict_linear((sum(rate(lynx_batch_size_sum{ {{- $where }}}[1m]))
  / (sum(rate(lynx_batch_size_count{ {{- $where }}}[1m])) > 0)
  / avg(lynx_sequence_slots{ {{- $where }}}) or vector(0))[5m:15s], {{ $ahead }})
predicted-kv: >-
  predict_linear((1 - sum(lynx_kv_blocks{ {{- $where }},state="free"})
  / sum(lynx_kv_blocks{ {{- $where }}}))[5m:15s], {{ $ahead }})
predicted-step: >-
  predict_linear((sum(rate(lynx_step_predicted_seconds_sum{ {{- $where }}}[1m]))
  / (sum(rate(lynx_step_predicted_seconds_count{ {{- $where }}}[1m])) > 0)
  / min(lynx_slo_objective_seconds{ {{- $slo }}}) or vector(0))[5m:15s], {{ $ahead }})
{{- end }}
{{- end -}}
