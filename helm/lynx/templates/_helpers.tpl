{{/* Names. Long ones are cut so that "-prefill" and the like still fit a DNS label. */}}
{{- define "lynx.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "lynx.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "lynx.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "lynx.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Takes a dict of root and component, as do those below. */}}
{{- define "lynx.componentName" -}}
{{- printf "%s-%s" (include "lynx.fullname" .root) .component -}}
{{- end -}}

{{- define "lynx.selector" -}}
app.kubernetes.io/name: {{ include "lynx.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "lynx.labels" -}}
{{ include "lynx.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: lynx
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Dict of root, component, and optionally name, labels and annotations. */}}
{{- define "lynx.metadata" -}}
name: {{ default (include "lynx.componentName" .) .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "lynx.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "lynx.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "lynx.serviceAccountName" -}}
{{- if .root.Values.serviceAccount.create -}}
{{- include "lynx.componentName" . -}}
{{- else -}}
{{- default "default" .root.Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What a component speaks on its http port. */}}
{{- define "lynx.scheme" -}}
{{- if and (eq .component "router") .root.Values.tls.existingSecret }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* Ports: the API and control of a router, metrics and probes of a worker. */}}
{{- define "lynx.httpPort" -}}{{ eq .component "router" | ternary 8000 8080 }}{{- end -}}
{{- define "lynx.controlPort" -}}7700{{- end -}}
{{- define "lynx.controlService" -}}{{ include "lynx.fullname" . }}-control{{- end -}}

{{- define "lynx.clusterSecretName" -}}
{{- default (printf "%s-cluster" (include "lynx.fullname" .)) .Values.clusterSecret.existingSecret -}}
{{- end -}}
{{- define "lynx.clusterSecretKey" -}}
{{- empty .Values.clusterSecret.existingSecret | ternary "cluster-secret" .Values.clusterSecret.key -}}
{{- end -}}

{{- define "lynx.hasApiKeys" -}}
{{- if or .Values.apiKeys.values .Values.apiKeys.existingSecret }}true{{ end -}}
{{- end -}}
{{- define "lynx.apiKeysSecretName" -}}
{{- default (printf "%s-api-keys" (include "lynx.fullname" .)) .Values.apiKeys.existingSecret -}}
{{- end -}}
{{- define "lynx.apiKeysKey" -}}
{{- empty .Values.apiKeys.existingSecret | ternary "api-keys" .Values.apiKeys.key -}}
{{- end -}}

{{/* What a drain may take, from the one value. Takes a component's values. */}}
{{- define "lynx.preStopSeconds" -}}
{{- div .terminationGracePeriodSeconds 20 | max 1 | min 15 -}}
{{- end -}}
{{- define "lynx.shutdownGraceSeconds" -}}
{{- sub .terminationGracePeriodSeconds (include "lynx.preStopSeconds" . | int) | add -5 -}}
{{- end -}}

{{/* "250ms", "2s", "5m", "1h" or a plain number, as the services read them, in milliseconds. */}}
{{- define "lynx.milliseconds" -}}
{{- $text := toString . -}}
{{- if hasSuffix "ms" $text }}{{ trimSuffix "ms" $text | float64 | int64 -}}
{{- else if hasSuffix "s" $text }}{{ mulf 1000 (trimSuffix "s" $text | float64) | int64 -}}
{{- else if hasSuffix "m" $text }}{{ mulf 60000 (trimSuffix "m" $text | float64) | int64 -}}
{{- else if hasSuffix "h" $text }}{{ mulf 3600000 (trimSuffix "h" $text | float64) | int64 -}}
{{- else }}{{ float64 $text | int64 }}{{ end -}}
{{- end -}}
