#!/bin/sh
# After installing and upgrading. dpkg passes "configure" and the old version, if there was one; rpm passes the number
# of installed versions.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers letterhead.conf
elif ! getent passwd letterhead >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/letterhead --shell /usr/sbin/nologin letterhead
fi
for folder in /var/lib/letterhead /var/backups/letterhead; do
  [ -d "$folder" ] || install -d -m 0700 -o letterhead -g letterhead "$folder"
done
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  case "$1:$2" in
  configure: | 1:)
    # The presets of Debian enable a service when it is installed, and the presets of Fedora do not.
    systemctl preset letterhead.service
    if systemctl is-enabled --quiet letterhead.service; then systemctl start letterhead.service; fi ;;
  *) systemctl try-restart letterhead.service ;;
  esac
fi
