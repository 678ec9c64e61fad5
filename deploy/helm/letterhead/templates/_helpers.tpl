{{/* A node's name may have 63 characters. Leave room for a role and the 17 characters that a Deployment adds. */}}
{{- define "letterhead.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 35 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 35 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 35 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "letterhead.selector" -}}
app.kubernetes.io/name: letterhead
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "letterhead.labels" -}}
{{ include "letterhead.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "letterhead.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "letterhead.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "letterhead.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "letterhead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Fails with a reason for settings that the chart sets itself. */}}
{{- define "letterhead.checkSettings" -}}
{{- $port := "the chart's probes, Services and network policies depend on its port" -}}
{{- $secret := "put it into the Secret that existingSecret names" -}}
{{- $own := dict
  "LETTERHEAD_LISTEN" $port
  "LETTERHEAD_METRICS_LISTEN" $port
  "LETTERHEAD_NODE" "each node has the name of its pod"
  "LETTERHEAD_ROLES" "each Deployment has its role"
  "LETTERHEAD_DATA" "the chart mounts a volume there"
  "LETTERHEAD_LOG_FORMAT" "nodes of the chart log in JSON"
  "LETTERHEAD_BASE_URL" "set baseURL instead"
  "LETTERHEAD_EVENTSTORE" $secret
  "LETTERHEAD_DATABASE" $secret
  "LETTERHEAD_SEARCH" $secret
  "LETTERHEAD_BROKER" $secret
  "LETTERHEAD_ASSETS" $secret -}}
{{- $extra := dict -}}
{{- range .Values.extraEnv -}}{{- $_ := set $extra .name true -}}{{- end -}}
{{- range $name, $why := $own -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "take %s out of settings: %s" $name $why) -}}
{{- else if hasKey $extra $name -}}
{{- fail (printf "take %s out of extraEnv: %s" $name $why) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Every address that is not private. */}}
{{- define "letterhead.internet" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    except:
      {{- toYaml .Values.networkPolicy.private | nindent 6 }}
- ipBlock:
    cidr: ::/0
    except:
      {{- range .Values.networkPolicy.privateIPv6 }}
      - {{ . | quote }}
      {{- end }}
{{- end -}}

{{/* GOMEMLIMIT: 85 % of a limit in Gi or Mi. Without it the node derives its limit from its cgroup. */}}
{{- define "letterhead.memory" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- if hasSuffix "Gi" $limit -}}
{{- mulf (trimSuffix "Gi" $limit | float64) 870 | floor | int64 }}MiB
{{- else if hasSuffix "Mi" $limit -}}
{{- mulf (trimSuffix "Mi" $limit | float64) 0.85 | floor | int64 }}MiB
{{- end -}}
{{- end -}}

{{/* Peers of a service in networkPolicy.services. Call it with (dict "root" $ "service" name). */}}
{{- define "letterhead.egress" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $service := index $policy.services .service -}}
- ports:
    {{- range $service.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  to:
    {{- if $service.peers }}
    {{- toYaml $service.peers | nindent 4 }}
    {{- else if $service.public }}
    {{- include "letterhead.internet" .root | nindent 4 }}
    {{- else }}
    {{- range concat (list "10.0.0.0/8" "172.16.0.0/12" "192.168.0.0/16" "100.64.0.0/10" "fc00::/7") }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
    {{- end }}
{{- end -}}
