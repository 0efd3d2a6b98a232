#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds; ends at the first input that breaks a promise.
#
#   scripts/fuzz.sh [SECONDS_PER_TARGET] [TARGET …]
#
# The sanitizer and coverage flags are unstable, so the pinned compiler is told to accept them; no other
# toolchain is needed. What was found interesting is kept in fuzz/corpus and used the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
tools=${CARGO_TARGET_DIR:-target}/tools
export PATH="$tools/bin:$PATH"
if ! command -v cargo-fuzz >/dev/null; then
    cargo install cargo-fuzz --version 0.13.2 --locked --root "$tools"
fi

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    mkdir -p "fuzz/corpus/$target"
    RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" "$PWD/fuzz/corpus/$target" "$PWD/fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -print_final_stats=1
done
