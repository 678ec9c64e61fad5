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
  "LETTERHEAD_DATABASE_CONNECTIONS" "set databaseConnections of the roles instead"
  "LETTERHEAD_EVENTSTORE" $secret
  "LETTERHEAD_DATABASE" $secret
  "LETTERHEAD_SEARCH" $secret
  "LETTERHEAD_BROKER" $secret
  "LETTERHEAD_ASSETS" $secret
  "LETTERHEAD_LEDGER_KEY" $secret
  "LETTERHEAD_NOTICES_KEY" $secret
  "LETTERHEAD_STRIPE_KEY" $secret
  "LETTERHEAD_STRIPE_WEBHOOK_SECRET" $secret
  "LETTERHEAD_SMTP_URL" $secret -}}
{{- if .Values.billing -}}{{- $_ := set $own "LETTERHEAD_BILLING_FILE" "billing has the prices" -}}{{- end -}}
{{- if .Values.admin.enabled -}}
{{- $_ := set $own "LETTERHEAD_ADMIN_LISTEN" "admin.enabled sets it for API nodes" -}}
{{- $_ := set $own "LETTERHEAD_ADMIN_HOSTS" "set admin.hosts instead" -}}
{{- end -}}
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

{{/* Fails if the Secret exists and lacks a key. Nothing can be looked up while a chart is only rendered. */}}
{{- define "letterhead.checkSecret" -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace .Values.existingSecret -}}
{{- if $found -}}
{{- $required := list "LETTERHEAD_EVENTSTORE" "LETTERHEAD_DATABASE" "LETTERHEAD_SEARCH" "LETTERHEAD_BROKER" "LETTERHEAD_ASSETS" -}}
{{- if .Values.billing -}}{{- $required = concat $required (list "LETTERHEAD_STRIPE_KEY" "LETTERHEAD_STRIPE_WEBHOOK_SECRET") -}}{{- end -}}
{{- if hasKey .Values.settings "LETTERHEAD_MAIL_FROM" -}}{{- $required = append $required "LETTERHEAD_SMTP_URL" -}}{{- end -}}
{{- range $required -}}
{{- if not (index (default dict $found.data) .) -}}
{{- fail (printf "the Secret %s has no %s: add it (README.md); nothing was changed" $.Values.existingSecret .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if PostgreSQL does not allow the connections of all nodes at their largest number, while one more of each role
replaces another. The numbers are the connections outside the pools, which hold the node's name and its leaderships.
*/}}
{{- define "letterhead.checkConnections" -}}
{{- $sum := 3 -}}{{/* that PostgreSQL reserves */}}
{{- $own := dict "api" 1 "crawler" 2 "projector" 4 "relay" 5 "sweeper" 6 "refresher" 2 -}}
{{- range $role, $r := .Values.roles -}}
{{- $nodes := ternary $r.autoscaling.maxReplicas $r.replicas $r.autoscaling.enabled | int | add1 -}}
{{- $sum = add $sum (mul $nodes (add (int $r.databaseConnections) (index $own $role))) -}}
{{- end -}}
{{- if .Values.backup.enabled -}}{{- $sum = add $sum 4 -}}{{- end -}}
{{- if gt $sum (int .Values.maxDatabaseConnections) -}}
{{- fail (printf "the nodes may open %d connections to PostgreSQL, and maxDatabaseConnections is %d: increase max_connections of PostgreSQL and this value, or decrease maxReplicas or databaseConnections of the roles" $sum (int .Values.maxDatabaseConnections)) -}}
{{- end -}}
{{- end -}}

{{/* The names by which clients reach the Service of the admin API. */}}
{{- define "letterhead.adminHosts" -}}
{{- $name := printf "%s-admin" (include "letterhead.fullname" .) -}}
{{- $space := .Release.Namespace -}}
{{- concat (list $name (printf "%s.%s" $name $space) (printf "%s.%s.svc" $name $space) (printf "%s.%s.svc.%s" $name $space .Values.clusterDomain)) .Values.admin.hosts | join "," -}}
{{- end -}}

{{/* Annotations that restart pods when their configuration changes. Without a cluster the Secret has no checksum. */}}
{{- define "letterhead.checksums" -}}
{{- with (lookup "v1" "Secret" .Release.Namespace .Values.existingSecret).data }}
checksum/secret: {{ toJson . | sha256sum }}
{{- end }}
{{- with .Values.billing }}
checksum/billing: {{ toYaml . | sha256sum }}
{{- end }}
{{- end -}}

{{/* What the pods of nodes and of jobs share. */}}
{{- define "letterhead.pod" -}}
serviceAccountName: {{ include "letterhead.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
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
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
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
