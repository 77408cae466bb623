#!/usr/bin/env bash
# Fuzzes the parsers: run.sh [SECONDS [TARGET...]]   (20 seconds for each target without arguments)
#
# Needs cargo and a C++ compiler, no nightly toolchain. Inputs that break a target are kept under $RUNGWISE_FUZZ_OUT
# (default: a folder `found` beside the build), and the exit code is 1. To try one again:
#   RUNGWISE_FUZZ=TARGET .../release/fuzz FILE
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
seconds=${1:-20}
shift || true
host=$(rustc -vV | sed -n 's/^host: //p')
build=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR=$build

# Coverage of edges and comparisons, as libFuzzer wants it; for --target only, so not in build scripts.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
RUSTFLAGS="$coverage --cfg fuzzing" cargo build --release --locked --target "$host"
fuzz=$build/$host/release/fuzz

targets=${*:-$(sed -n 's/.*Self { name: "\([a-z_]*\)".*/\1/p' src/target.rs)}
found=${RUNGWISE_FUZZ_OUT:-$build/found}
mkdir -p "$found"
cd "$root"

# The files of this repository that a target begins with, beside its own in corpus/.
seeds() {
    case $1 in
    scenario) find scenarios tests/invalid -name '*.toml' -not -path '*/profiles/*' ;;
    import) find tests/command_line/import -type f ;;
    fit_onto) find tests/command_line/import -name '*.log' ;;
    profile) find scenarios tests/invalid -path '*/profiles/*.toml' ;;
    esac
}

broken=0
for target in $targets; do
    start=$(mktemp -d)
    { find tests/fuzz/corpus -path "*/$target/*" -type f; seeds "$target"; } | while read -r seed; do cp "$seed" "$start/$(echo "$seed" | tr / _)"; done
    mkdir -p "$found/corpus/$target"
    log=$found/$target.log
    if RUNGWISE_FUZZ=$target "$fuzz" "$found/corpus/$target" "$start" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=3000 -max_len=65536 -close_fd_mask=3 -print_final_stats=1 -artifact_prefix="$found/$target-" \
        >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        peak=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
        printf '%-10s %9s inputs in %s s, %s MiB: clean\n' "$target" "$runs" "$seconds" "$peak"
    else
        broken=1
        printf '%-10s BROKEN, see %s\n' "$target" "$log"
        grep -a -m 3 -E 'panicked|ERROR|assert|Test unit' "$log" | sed 's/^/    /' || true
    fi
    rm -r "$start"
done
exit $broken
