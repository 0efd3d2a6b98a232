#!/usr/bin/env bash
# Runs fuzz targets, all or some, for a number of seconds each, and prints what was found.
#
#   scripts/fuzz.sh [SECONDS_PER_TARGET] [TARGET …]   JOBS=n: so many targets at once
#   scripts/fuzz.sh --keep [TARGET …]                 take into fuzz/seeds what adds coverage, at most 100 kB for each
#   scripts/fuzz.sh --table                           all campaigns noted in fuzz/campaigns.csv, as docs/trust.md has them
#
# A target ends at the first input that breaks a promise, and leaves the input in fuzz/artifacts; other targets continue.
# Interesting inputs are kept in fuzz/corpus and used the next time. Each run adds a line to fuzz/campaigns.csv, with the
# processor time of the target instead of the elapsed time.
#
# The sanitizer and coverage flags are unstable, so the pinned compiler is told to accept them; no other toolchain is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

campaigns=fuzz/campaigns.csv
seeds_bytes_max=100000
export RUSTC_BOOTSTRAP=1
tools=${CARGO_TARGET_DIR:-target}/tools
export PATH="$tools/bin:$PATH"

# Prints the path of a target's program, which `build` makes.
program() {
    echo "${CARGO_TARGET_DIR:-fuzz/target}/$(rustc -vV | sed -n 's/^host: //p')/release/$1"
}

all_targets() {
    for file in fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done
}

build() {
    if ! command -v cargo-fuzz >/dev/null; then
        cargo install cargo-fuzz --version 0.13.2 --locked --root "$tools"
    fi
    if [ $# = 1 ]; then cargo fuzz build "$1"; else cargo fuzz build; fi
}

# Runs a target. One allocation is limited to 64 MB, a run to 2 GB of memory, and an input to 60 seconds.
run() {
    local seconds=$1 target=$2 log dictionary=()
    log=fuzz/artifacts/$target/log
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target" "fuzz/seeds/$target"
    local leaks=1
    # A scope of threads ends before they have freed their thread-local memory, which looks like a leak.
    if [ "$target" = store_files ]; then leaks=0; fi
    if [ -e "fuzz/dictionaries/$target.dict" ]; then dictionary=("-dict=fuzz/dictionaries/$target.dict"); fi
    local TIMEFORMAT='cpu_s: %U %S' code=0
    { time "$(program "$target")" "fuzz/corpus/$target" "fuzz/seeds/$target" "${dictionary[@]}" \
        -max_total_time="$seconds" -print_final_stats=1 -detect_leaks=$leaks -timeout=60 -malloc_limit_mb=64 -rss_limit_mb=2048 \
        -artifact_prefix="fuzz/artifacts/$target/" > "$log" 2>&1; } 2> "$log.time" || code=$?
    note "$target" "$log" "$code"
    if [ $code != 0 ]; then
        mv "$log" "$log.broken" # the next run has a log of its own
        echo "$target: a promise is broken; see $log.broken and the input beside it" >&2
    fi
    return $code
}

# Adds a line to the campaigns: date,commit,target,cpu_s,executions,edges,broken
note() {
    local target=$1 log=$2 broken=$((${3} != 0)) cpu_s executions edges
    # The shell adds a line of its own when a signal ended the target.
    cpu_s=$(awk '/^cpu_s/ { print int($2 + $3 + 0.5) }' "$log.time")
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    # A run that broke off has not printed the number, so it is taken from the last progress line.
    executions=${executions:-$(sed -n 's/^#\([0-9]*\)\s.*cov:.*/\1/p' "$log" | tail -1)}
    edges=$(sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    echo "$(date -u +%F),$(git rev-parse --short HEAD),$target,$cpu_s,${executions:-0},${edges:-0},$broken" >> $campaigns
}

table() {
    if [ ! -s $campaigns ]; then
        echo "no campaign has been noted in $campaigns"
        return
    fi
    echo "| target | CPU hours | executions | edges covered | runs | first | last | commit |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
    sort -t, -k3,3 -s $campaigns | awk -F, '
        function row() {
            printf "| `%s` | %.2f | %d | %d | %d | %s | %s | %s |\n", target, cpu / 3600, executions, edges, runs, first, last, commit
        }
        $3 != target { if (target) row(); target = $3; cpu = executions = edges = runs = 0; first = $1 }
        { cpu += $4; executions += $5; if ($6 > edges) edges = $6; runs++; last = $1; commit = $2; all += $4; total += $5 }
        END { row(); printf "| all | %.2f | %d | | %d | | | |\n", all / 3600, total, NR }'
}

bytes_of() {
    find "fuzz/seeds/$1" -type f -printf '%s\n' | awk '{ bytes += $1 } END { print bytes + 0 }'
}

# Adds inputs that increase coverage to the seeds, the smallest first, as far as there is room.
keep() {
    local target=$1 new file held
    new=$(mktemp -d)
    mkdir -p "fuzz/seeds/$target"
    cp "fuzz/seeds/$target"/* "$new" 2>/dev/null || true
    "$(program "$target")" -merge=1 -rss_limit_mb=2048 "$new" "fuzz/corpus/$target" > "$new.log" 2>&1
    held=$(bytes_of "$target")
    while read -r file; do
        if [ ! -e "fuzz/seeds/$target/$file" ]; then
            held=$((held + $(stat -c %s "$new/$file")))
            if [ $held -gt $seeds_bytes_max ]; then break; fi
            cp "$new/$file" "fuzz/seeds/$target/$file"
        fi
    done < <(ls -rS "$new")
    rm -r "$new" "$new.log"
    echo "$target: $(ls "fuzz/seeds/$target" | wc -l) seeds, $(bytes_of "$target") bytes"
}

case ${1:-60} in
    --table) table ;;
    --one) run "$2" "$3" ;;
    --keep)
        shift
        for target in $(if [ $# = 0 ]; then all_targets; else echo "$@"; fi); do keep "$target"; done
        ;;
    *)
        seconds=${1:-60}
        shift || true
        build "$@"
        targets=$(if [ $# = 0 ]; then all_targets; else echo "$@"; fi)
        # After a broken promise the other targets still run.
        code=0
        echo "$targets" | tr ' ' '\n' | xargs -P "${JOBS:-1}" -I{} scripts/fuzz.sh --one "$seconds" {} || code=1
        table
        exit $code
        ;;
esac
