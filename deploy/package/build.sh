#!/bin/sh
# Usage: build.sh VERSION ARCH BINARY FILES OUT. Builds the .deb and the .rpm of a binary in the folder OUT. FILES has the
# man pages, the completions and sbom.cdx.json. Run it in the root of the repository; NFPM is the module of nfpm.
set -eu
export PACKAGE_VERSION="$1" PACKAGE_ARCH="$2" PACKAGE_BINARY="$3" PACKAGE_FILES="$4"
for kind in deb rpm; do
  # nfpm is built for this machine, whatever the binary is for.
  env -u GOOS -u GOARCH go run "$NFPM" package --config deploy/package/nfpm.yaml --packager "$kind" --target "$5"
done
