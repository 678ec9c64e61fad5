#!/bin/sh
# Checks the client for TypeScript: check.sh DESCRIPTION BINARY compares the generated types with the API's description,
# compiles the client, and tests it against the binary. With --renew before the two it first generates the types again,
# and with --fetch alone it only fetches the npm packages.
#
# If Node.js 20 is missing, or the packages cannot be fetched, the script reports that and exits 0, because neither says
# anything about the client.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
  echo "Node.js 20 or npm is missing: the client for TypeScript was not checked"
  exit
fi
if ! out=$(npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel error 2>&1); then
  echo "$out"
  if npm ping --loglevel silent >/dev/null 2>&1; then exit 1; fi
  echo "npm's registry cannot be reached: the client for TypeScript was not checked"
  exit
fi
case $1 in
--fetch) exit ;;
--renew)
  shift
  npm run --silent generate -- "$1"
  ;;
esac
npm run --silent generate -- "$1" --check
rm -rf dist build/*.js
npm run --silent build
LETTERHEAD_BINARY=$2 npm test --silent
