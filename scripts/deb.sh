#!/usr/bin/env bash
# Makes the Debian package: the program, its manual pages and completions, services. Leaves target/debian/*.deb.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
export PATH="$target/tools/bin:$PATH"
if ! command -v cargo-deb >/dev/null; then
    cargo install cargo-deb --version 3.8.0 --locked --root "$target/tools"
fi

cargo build --release --locked
# The directory is beside the program, where cargo-deb looks for built files.
out=$target/release/package
rm -rf "$out"
mkdir -p "$out/man"
"$target/release/posthaste" man --out "$out/man"
for shell in bash zsh fish; do
    "$target/release/posthaste" completions $shell >"$out/$shell"
done
cargo deb --no-build --locked
