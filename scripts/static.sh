#!/usr/bin/env bash
# Builds a statically linked program, which needs not even the system's C library: target/static/posthaste.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
triple=$(uname -m)-unknown-linux-musl
rustup target add "$triple"
cargo build --release --locked --target "$triple"

program=$target/$triple/release/posthaste
if LC_ALL=C readelf --program-headers "$program" | grep -q INTERP; then
    echo "$program wants a loader, so it is not static" >&2
    exit 1
fi
mkdir -p "$target/static"
strip --strip-debug -o "$target/static/posthaste" "$program"
echo "$target/static/posthaste, $(du -h "$target/static/posthaste" | cut -f1): $("$target/static/posthaste" --version)"
