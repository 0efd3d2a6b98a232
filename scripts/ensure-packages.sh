#!/usr/bin/env bash
# Installs missing programs, or says what to install.
#
#   scripts/ensure-packages.sh redis-cli=redis-tools node=nodejs module:ensurepip=python3-venv
#
# Each argument is PROGRAM=PACKAGE (the Debian package of the program), module:NAME=PACKAGE for a Python module, or
# extension:NAME=PACKAGE for an extension of PostgreSQL, whose newest installed version replaces % in the package's name.
# Nothing happens when all are installed. Otherwise they are installed for root on a system with apt-get; other users get
# a message, because installing for a whole machine is their decision.
set -euo pipefail

postgresql_version() {
    { find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null || true; } | sort -V | tail -n 1
}

is_there() {
    case $1 in
        extension:*) [ -e "/usr/share/postgresql/$(postgresql_version)/extension/${1#extension:}.control" ] ;;
        # Debian keeps it off the PATH, in a directory for each version.
        initdb) [ -x "${POSTGRES_BIN:-}/initdb" ] || compgen -G "/usr/lib/postgresql/*/bin/initdb" || command -v initdb ;;
        module:*) python3 -c "import ${1#module:}" 2>/dev/null ;;
        *) command -v "$1" ;;
    esac
}

packages=()
for pair in "$@"; do
    package=${pair#*=}
    is_there "${pair%%=*}" >/dev/null || packages+=("${package//%/$(postgresql_version)}")
done
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: ${packages[*]}. Install with: sudo apt-get install ${packages[*]}" \
         "(or your system's packages of that name)" >&2
    exit 1
fi
echo "installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -qq --no-install-recommends --yes "${packages[@]}" >/dev/null; }
# Asking for the newest lists takes longer than most packages; they are asked for where those at hand do not serve.
install 2>/dev/null || { apt-get update -qq && install; }

for pair in "$@"; do
    is_there "${pair%%=*}" >/dev/null || { echo "${pair#*=} is installed and still ${pair%%=*} is missing" >&2; exit 1; }
done
