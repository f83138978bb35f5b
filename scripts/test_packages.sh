#!/usr/bin/env bash
# Installs the Debian packages that the tests use and that are missing: database servers, which the
# tests start themselves as private ones, JDBC drivers for Spark, and Chromium.
# A second call asks dpkg and returns at once. Arguments name packages to install instead of all.
set -euo pipefail

packages=(
    postgresql mariadb-server
    libpostgresql-jdbc-java libmariadb-java
    libxerial-sqlite-jdbc-java libxerial-sqlite-jdbc-jni
    chromium
)
[ $# -eq 0 ] || packages=("$@")

installed() { dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

missing=()
for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "These packages are needed, but this is no Debian: ${missing[*]}" >&2
    exit 1
fi
as_root=(env DEBIAN_FRONTEND=noninteractive)
[ "$(id -u)" -eq 0 ] || as_root=(sudo "${as_root[@]}")

# Debian starts a server as soon as it is installed; this refuses it, unless the machine already has
# a policy of its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
for package in "${missing[@]}"; do
    installed "$package" || { echo "$package was not installed" >&2; exit 1; }
done
