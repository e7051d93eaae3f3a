{{/* The YAML that a service reads. What the chart derives wins over .config; the schema keeps those keys out of .config. */}}
{{- define "lynx.routerConfig" -}}
{{- $values := .Values.router -}}
{{- $http := dict "host" "0.0.0.0" "port" 8000 -}}
{{- if include "lynx.hasApiKeys" . }}{{ $_ := set $http "api_keys_file" "/etc/lynx/api-keys/keys" }}{{ end -}}
{{- if .Values.tls.existingSecret -}}
{{- $_ := set $http "tls_certificate_file" "/etc/lynx/tls/tls.crt" -}}
{{- $_ := set $http "tls_key_file" "/etc/lynx/tls/tls.key" -}}
{{- end -}}
{{- $derived := dict
  "shutdown_grace" (printf "%ss" (include "lynx.shutdownGraceSeconds" $values))
  "model" (dict "path" .Values.model.path "name" .Values.model.name)
  "http" $http
  "control" (dict "host" "0.0.0.0" "port" (include "lynx.controlPort" . | int) "secret_file" "/etc/lynx/cluster/secret") -}}
{{- toYaml (mergeOverwrite (deepCopy $values.config) $derived) -}}
{{- end -}}

{{/* Takes a dict of root and component (prefill or decode). */}}
{{- define "lynx.workerConfig" -}}
{{- $values := get .root.Values .component -}}
{{- $derived := dict
  "shutdown_grace" (printf "%ss" (include "lynx.shutdownGraceSeconds" $values))
  "routers" (list (printf "%s:%s" (include "lynx.controlService" .root) (include "lynx.controlPort" .root)))
  "model" (dict "path" .root.Values.model.path "name" .root.Values.model.name)
  "http" (dict "host" "0.0.0.0" "port" (include "lynx.httpPort" . | int))
  "control" (dict "secret_file" "/etc/lynx/cluster/secret") -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.workers.config) $values.config $derived) -}}
{{- end -}}

{{- define "lynx.config" -}}
{{- if eq .component "router" }}{{ include "lynx.routerConfig" .root }}{{ else }}{{ include "lynx.workerConfig" . }}{{ end -}}
{{- end -}}

{{/* Changes when a Secret that the chart writes changes, so that pods are replaced. A secret that the chart made up once
     never changes, and one that it does not own it cannot see: roll the workloads after changing that. */}}
{{- define "lynx.secretChecksum" -}}
{{- list .Values.clusterSecret .Values.apiKeys .Values.tls | toJson | sha256sum -}}
{{- end -}}
