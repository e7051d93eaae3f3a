{{/* The pod of a router or worker. Takes a dict of root and component. */}}
{{- define "lynx.podTemplate" -}}
{{- $root := .root -}}
{{- $values := get .root.Values .component -}}
metadata:
  labels:
    {{- /* No versions here: a new chart alone replaces no pod. */}}
    {{- include "lynx.selector" . | nindent 4 }}
    {{- with merge (dict) $values.podLabels $root.Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "lynx.config" . | sha256sum }}
    checksum/secret: {{ include "lynx.secretChecksum" $root }}
    {{- with merge (dict) $values.podAnnotations $root.Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "lynx.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml $root.Values.podSecurityContext | nindent 4 }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
  {{- with get $values $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $values.topologySpread }}
  {{- if .enabled }}
  topologySpreadConstraints:
    - maxSkew: {{ .maxSkew }}
      topologyKey: {{ .topologyKey }}
      whenUnsatisfiable: {{ .whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "lynx.selector" $ | nindent 10 }}
  {{- end }}
  {{- end }}
  {{- if eq $root.Values.model.source "initContainer" }}
  initContainers:
    - {{- include "lynx.modelContainer" $root | nindent 6 }}
  {{- end }}
  containers:
    - {{- include "lynx.container" . | nindent 6 }}
  volumes:
    {{- include "lynx.volumes" . | nindent 4 }}
{{- end -}}

{{- define "lynx.container" -}}
{{- $root := .root -}}
{{- $values := get .root.Values .component -}}
{{- $router := eq .component "router" -}}
name: {{ .component }}
image: {{ include "lynx.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command: [lynx-{{ .component }}]
args:
  - --config=/etc/lynx/config/{{ .component }}.yaml
  {{- if not $router }}
  - --worker.name=$(POD_NAME)
  {{- if not (or (hasKey $values.config "threads") (hasKey $root.Values.workers.config "threads")) }}
  - --threads=$(CPU_LIMIT)
  {{- end }}
  {{- end }}
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- if not $router }}
  # Rounded up; without a limit, what the node can give.
  - name: CPU_LIMIT
    valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1"}}
  {{- end }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: http
    containerPort: {{ include "lynx.httpPort" . }}
  {{- if $router }}
  - name: control
    containerPort: {{ include "lynx.controlPort" $root }}
  {{- end }}
{{ include "lynx.probes" . }}
lifecycle:
  preStop:
    {{- include "lynx.pause" (dict "root" $root "seconds" (include "lynx.preStopSeconds" $values)) | nindent 4 }}
resources:
  {{- include "lynx.resources" $values | nindent 2 }}
securityContext:
  {{- include "lynx.containerSecurityContext" . | nindent 2 }}
volumeMounts:
  {{- include "lynx.volumeMounts" . | nindent 2 }}
{{- end -}}

{{/* Three meanings. Startup: the weights are in; until then neither of the others is asked, so loading is never taken for
     a hang. Live: the loop turns; a restart would help if not. Ready: traffic is welcome; a restart would not help. */}}
{{- define "lynx.probes" -}}
{{- $values := get .root.Values .component -}}
{{- $scheme := include "lynx.scheme" . | upper -}}
startupProbe:
  httpGet: {path: /health/startup, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: {{ div (add $values.startupSeconds 1) 2 }}
livenessProbe:
  httpGet: {path: /health/live, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /health/ready, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{/* Kubernetes pauses by itself from 1.30 on. */}}
{{- define "lynx.pause" -}}
{{- if semverCompare ">=1.30.0-0" .root.Capabilities.KubeVersion.Version -}}
sleep:
  seconds: {{ .seconds }}
{{- else -}}
exec:
  command: [sleep, {{ .seconds | quote }}]
{{- end -}}
{{- end -}}

{{/* Takes a component's values. Devices are asked for as limits, which Kubernetes takes for requests too. */}}
{{- define "lynx.resources" -}}
{{- $resources := deepCopy .resources -}}
{{- $limits := deepCopy (default (dict) $resources.limits) -}}
{{- with .gpu }}{{ if .count }}{{ $_ := set $limits .resourceName .count }}{{ end }}{{ end -}}
{{- with .rdma }}{{ if .enabled }}{{ $_ := set $limits .resourceName .count }}{{ end }}{{ end -}}
{{- if $limits }}{{ $_ := set $resources "limits" $limits }}{{ end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "lynx.containerSecurityContext" -}}
{{- $values := get .root.Values .component -}}
{{- $context := deepCopy .root.Values.containerSecurityContext -}}
{{- with $values.rdma -}}
{{- if and .enabled .ipcLock -}}
{{- $capabilities := default (dict) $context.capabilities -}}
{{- $_ := set $context "capabilities" (set $capabilities "add" (append (default (list) $capabilities.add) "IPC_LOCK" | uniq)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}
