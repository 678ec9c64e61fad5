#!/bin/bash
# Installs, uses, upgrades and removes the packages of this machine's architecture: `make test-packages`. The .deb goes
# into a Debian system made by debootstrap, the .rpm into a copy of it by Debian's rpm, which knows none of its packages
# (--nodeps). Nothing runs as root of this machine but these programs, and the server listens on a loopback port.
set -euo pipefail
older=$1 newer=$2 # folders of packages
skip() { echo "the packages were not tested: $1"; exit 0; }
[ "$(uname -s)" = Linux ] || skip "this is not Linux"
[ "$(id -u)" = 0 ] || skip "it takes root to make a Debian system"
for tool in dpkg debootstrap rpm curl systemd-analyze; do
  command -v "$tool" >/dev/null || skip "$tool is missing (apt-get install debootstrap rpm curl systemd)"
done

base=${XDG_CACHE_HOME:-$HOME/.cache}/letterhead-debian
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  for root in "$work"/deb "$work"/rpm; do umount -q "$root/proc" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
fail() { echo "FAIL: $1" >&2; exit 1; }

if [ ! -e "$base/done" ]; then
  rm -rf "$base"
  debootstrap --variant=minbase bookworm "$base" >"$work/debootstrap.log" 2>&1 || { tail -3 "$work/debootstrap.log"; skip "debootstrap fails"; }
  touch "$base/done"
fi
for root in "$work"/deb "$work"/rpm; do
  cp -a "$base" "$root"
  mount -t proc proc "$root/proc" 2>/dev/null || echo "no /proc in $root: this machine permits no mount"
done

# The units, as systemd judges them.
for unit in letterhead letterhead-backup; do
  systemd-analyze security --offline=true --threshold=25 "$(dirname "$0")/$unit.service" >"$work/$unit" || { cat "$work/$unit"; fail "$unit.service is exposed by 2.5 or more"; }
  tail -1 "$work/$unit"
done

# installed ROOT checks what both packages install.
installed() {
  for file in usr/bin/letterhead usr/lib/systemd/system/letterhead.service usr/lib/systemd/system/letterhead-backup.timer \
    usr/share/man/man1/letterhead-account-create.1 usr/share/bash-completion/completions/letterhead \
    usr/share/doc/letterhead/copyright usr/share/doc/letterhead/sbom.cdx.json etc/letterhead/letterhead.env; do
    [ -s "$1/$file" ] || [ -s "$1/$file.gz" ] || fail "$1 has no /$file"
  done
  chroot "$1" getent passwd letterhead >/dev/null || fail "there is no user letterhead"
  [ "$(stat -c %a "$1/var/lib/letterhead")" = 700 ] || fail "others may read /var/lib/letterhead"
  [ "$(stat -c %a "$1/etc/letterhead/letterhead.env")" = 600 ] || fail "others may read letterhead.env"
}

# serve ROOT starts the service as the unit does, waits for the first logo, backs up, and stops it.
serve() {
  local begun port=18080
  rm -f "$work/headers" "$work/logo" # of the run before
  begun=$(date +%s.%N)
  chroot --userspec=letterhead:letterhead "$1" /usr/bin/env -i HOME=/var/lib/letterhead LETTERHEAD_DATA=/var/lib/letterhead \
    LETTERHEAD_REFRESH=off LETTERHEAD_LISTEN=127.0.0.1:$port LETTERHEAD_ADMIN_LISTEN=off /usr/bin/letterhead serve >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    if curl -sf -D "$work/headers" -o "$work/logo" "http://127.0.0.1:$port/logo/github.com" &&
      grep -qi '^x-logo-source: logo' "$work/headers"; then break; fi # and no monogram
    kill -0 "$server" 2>/dev/null || { cat "$work/log"; fail "the service has ended"; }
    sleep 0.1
  done
  grep -qis '^x-logo-source: logo' "$work/headers" || { cat "$work/log"; fail "no logo within 60 s"; }
  echo "first logo after $(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $begun }") s"
  chroot --userspec=letterhead:letterhead "$1" /usr/bin/letterhead backup /var/backups/letterhead --data /var/lib/letterhead >/dev/null 2>&1 || fail "the backup fails"
  kill -TERM "$server"; wait "$server" || fail "the service ends with an error"
  server=
}

arch=$(dpkg --print-architecture)
one() { set -- "$1"/*"$2"; [ -e "$1" ] || fail "$1 is missing"; echo "$1"; }

echo "== deb"
root=$work/deb
install_deb() { cp "$1" "$root/tmp/letterhead.deb" && chroot "$root" dpkg -i /tmp/letterhead.deb; }
begun=$(date +%s)
install_deb "$(one "$older" "_$arch.deb")"
installed "$root"
serve "$root"
echo "from the package to the first logo: $(($(date +%s) - begun)) s"
before=$(chroot "$root" letterhead version)
echo "# edited" >>"$root/etc/letterhead/letterhead.env"
events=$(stat -c %s "$root/var/lib/letterhead/events.db")
install_deb "$(one "$newer" "_$arch.deb")"
installed "$root"
[ "$(chroot "$root" dpkg-query -W -f '${Version}' letterhead)" != "" ] || fail "the package has no version"
grep -q '^# edited' "$root/etc/letterhead/letterhead.env" || fail "the upgrade replaced the settings"
[ "$(stat -c %s "$root/var/lib/letterhead/events.db")" = "$events" ] || fail "the upgrade touched the data"
serve "$root"
chroot "$root" dpkg -r letterhead
[ ! -e "$root/usr/bin/letterhead" ] || fail "the program remains"
[ -e "$root/etc/letterhead/letterhead.env" ] && [ -e "$root/var/lib/letterhead/events.db" ] || fail "removing took settings or data"
chroot "$root" dpkg -P letterhead
[ ! -e "$root/etc/letterhead/letterhead.env" ] || fail "purging left the settings"
[ -e "$root/var/lib/letterhead/events.db" ] || fail "purging took the data"

echo "== rpm"
root=$work/rpm
arch=$(uname -m)
rpm_in() { rpm --force-debian --root "$root" --nodeps --dbpath /var/lib/rpm "$@"; }
rpm_in -i "$(one "$older" ".$arch.rpm")"
installed "$root"
serve "$root"
echo "# edited" >>"$root/etc/letterhead/letterhead.env"
rpm_in -U "$(one "$newer" ".$arch.rpm")"
installed "$root"
grep -q '^# edited' "$root/etc/letterhead/letterhead.env" || fail "the upgrade replaced the settings"
serve "$root"
rpm_in -e letterhead
[ ! -e "$root/usr/bin/letterhead" ] || fail "the program remains"
[ -e "$root/var/lib/letterhead/events.db" ] || fail "removing took the data"
echo "the packages install, serve, upgrade ($before) and go; data and settings stay"
