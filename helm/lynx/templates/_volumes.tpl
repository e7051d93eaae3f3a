{{/* Takes a dict of root and component. */}}
{{- define "lynx.volumeMounts" -}}
{{- $root := .root -}}
{{- $values := get .root.Values .component -}}
- name: config
  mountPath: /etc/lynx/config
  readOnly: true
- name: cluster-secret
  mountPath: /etc/lynx/cluster
  readOnly: true
{{- if and (eq .component "router") (include "lynx.hasApiKeys" $root) }}
- name: api-keys
  mountPath: /etc/lynx/api-keys
  readOnly: true
{{- end }}
{{- if and (eq .component "router") $root.Values.tls.existingSecret }}
- name: tls
  mountPath: /etc/lynx/tls
  readOnly: true
{{- end }}
{{- if ne $root.Values.model.source "image" }}
- name: model
  mountPath: {{ $root.Values.model.path }}
  readOnly: true
  {{- if and (eq $root.Values.model.source "persistentVolumeClaim") $root.Values.model.persistentVolumeClaim.subPath }}
  subPath: {{ $root.Values.model.persistentVolumeClaim.subPath }}
  {{- end }}
{{- end }}
- name: tmp
  mountPath: /tmp
{{- with $values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lynx.volumes" -}}
{{- $root := .root -}}
{{- $values := get .root.Values .component -}}
- name: config
  configMap:
    name: {{ include "lynx.componentName" . }}
- name: cluster-secret
  secret:
    secretName: {{ include "lynx.clusterSecretName" $root }}
    defaultMode: 0440
    items:
      - {key: {{ include "lynx.clusterSecretKey" $root }}, path: secret}
{{- if and (eq .component "router") (include "lynx.hasApiKeys" $root) }}
- name: api-keys
  secret:
    secretName: {{ include "lynx.apiKeysSecretName" $root }}
    defaultMode: 0440
    items:
      - {key: {{ include "lynx.apiKeysKey" $root }}, path: keys}
{{- end }}
{{- if and (eq .component "router") $root.Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ $root.Values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if ne $root.Values.model.source "image" }}
{{ include "lynx.modelVolume" $root }}
{{- end }}
- name: tmp
  emptyDir: {}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lynx.modelVolume" -}}
{{- $model := .Values.model -}}
- name: model
{{- if eq $model.source "persistentVolumeClaim" }}
  persistentVolumeClaim:
    claimName: {{ required "model.persistentVolumeClaim.claimName: name the claim that holds the model" $model.persistentVolumeClaim.claimName }}
    readOnly: true
{{- else if eq $model.source "hostPath" }}
  hostPath:
    path: {{ required "model.hostPath.path: name the model's folder on the nodes" $model.hostPath.path }}
    type: Directory
{{- else }}
  emptyDir: {{ if $model.initContainer.sizeLimit }}{sizeLimit: {{ $model.initContainer.sizeLimit }}}{{ else }}{}{{ end }}
{{- end }}
{{- end -}}

{{/* Fills the model's folder. It runs as the pod does: no root, nothing but that folder and /tmp to write to. */}}
{{- define "lynx.modelContainer" -}}
{{- $init := .Values.model.initContainer -}}
name: model
image: {{ default (include "lynx.image" .) $init.image }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command:
  {{- if not $init.command }}{{ fail "model.initContainer.command: say how the model gets into model.path" }}{{ end }}
  {{- toYaml $init.command | nindent 2 }}
{{- range $field := list "args" "env" "envFrom" }}
{{- with get $init $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
resources:
  {{- toYaml $init.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.containerSecurityContext | nindent 2 }}
volumeMounts:
  - name: model
    mountPath: {{ .Values.model.path }}
  - name: tmp
    mountPath: /tmp
{{- end -}}
