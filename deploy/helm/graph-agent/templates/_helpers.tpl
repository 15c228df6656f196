{{- define "graph-agent.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "graph-agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "graph-agent.labels" -}}
{{ include "graph-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "graph-agent.secret" -}}
{{ .Values.existingSecret | default (include "graph-agent.name" .) }}
{{- end }}

{{- /* The files of the ConfigMap by name, as JSON. */}}
{{- define "graph-agent.files" -}}
{{- $files := deepCopy .Values.files }}
{{- with .Values.constitution }}{{ $_ := set $files "constitution.md" . }}{{ end }}
{{- with .Values.mcp }}{{ $_ := set $files "servers.json" . }}{{ end }}
{{- with .Values.conditions }}{{ $_ := set $files "policy.cedar" . }}{{ end }}
{{- toJson $files }}
{{- end }}

{{- define "graph-agent.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* The container of the replicas and of the migration. */}}
{{- define "graph-agent.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - secretRef:
      name: {{ include "graph-agent.secret" . }}
env:
  - name: GRAPH_AGENT_TIMEOUT_SECONDS
    value: {{ .Values.timeoutSeconds | quote }}
  {{- range $name, $value := .Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- if .Values.constitution }}
  - name: GRAPH_AGENT_CONSTITUTION
    value: /etc/graph-agent/constitution.md
  {{- end }}
  {{- if .Values.mcp }}
  - name: GRAPH_AGENT_MCP
    value: /etc/graph-agent/servers.json
  {{- end }}
  {{- if .Values.conditions }}
  - name: GRAPH_AGENT_CONDITIONS
    value: /etc/graph-agent/policy.cedar
  {{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}

{{- define "graph-agent.placement" -}}
serviceAccountName: {{ include "graph-agent.name" . }}
automountServiceAccountToken: false
securityContext:
  {{- include "graph-agent.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
