#!/bin/sh
# Before removing. dpkg passes "remove" or "upgrade"; rpm passes the number of versions that remain.
set -e
case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now letterhead.service letterhead-backup.timer
  fi ;;
esac
