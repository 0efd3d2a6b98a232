#!/usr/bin/env bash
# Makes a Python environment and installs exactly the versions that the given files pin, unless that was done before.
#
#   scripts/python-env.sh .venv tests/clients/requirements.txt [more.txt …]
#
# The environment holds a stamp for each file, with what the file pinned: so two calls with different files add up instead
# of undoing each other, and a file that is checked out as it once was is installed again.
set -euo pipefail

env=$1
shift
cd "$(dirname "$0")/.."

if [ ! -x "$env/bin/python" ]; then
    scripts/ensure-packages.sh python3=python3 module:ensurepip=python3-venv
    python3 -m venv "$env"
fi
for file in "$@"; do
    stamp="$env/installed-${file//\//_}"
    pinned=$(sha256sum <"$file")
    [ "$(cat "$stamp" 2>/dev/null)" = "$pinned" ] && continue
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement "$file"
    echo "$pinned" >"$stamp"
done
