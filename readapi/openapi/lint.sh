#!/bin/sh
# Lints the API descriptions with Spectral and Redocly, to zero warnings: lint.sh SPECTRAL-PACKAGE REDOCLY-PACKAGE.
# If npx cannot fetch a package, the script reports that and exits 0, because a missing network says nothing about the
# description. With --fetch as the first argument it only fetches the packages.
set -eu
cd "$(dirname "$0")"
export NO_UPDATE_NOTIFIER=1 REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# fetched PACKAGE: whether npx can run it.
fetched() {
  if npx --yes "$1" --version >"$out" 2>&1; then return 0; fi
  echo "$1 cannot be fetched or run here, so it did not lint the interface description:"
  tail -n 2 "$out"
  return 1
}

if [ "$1" = --fetch ]; then
  fetched "$2" && fetched "$3"
  exit
fi
descriptions="openapi.yaml ../../adminapi/openapi.yaml"
if fetched "$1"; then
  for description in $descriptions; do
    if ! npx --yes "$1" lint --fail-severity hint --ruleset .spectral.yaml "$description" >"$out" 2>&1; then cat "$out"; exit 1; fi
    echo "$description: Spectral finds nothing"
  done
fi
if fetched "$2"; then
  for description in $descriptions; do
    if ! npx --yes "$2" lint --config .redocly.yaml --format json "$description" >"$out" 2>/dev/null || ! grep -q '"warnings": 0' "$out"; then cat "$out"; exit 1; fi
    echo "$description: Redocly finds nothing"
  done
fi
