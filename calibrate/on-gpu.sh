#!/usr/bin/env bash
# Everything that calibrate says about one GPU, by one command: no network, no cargo, no toolkit, at most five minutes.
#
#   calibrate/on-gpu.sh OUTDIR
#
# OUTDIR gets at most seven files. GPU.md, beside this script, says how to read them and what to commit of them.
#
# The binary, stripped, is taken from $CALIBRATE if that is set, else from the first of these that is there:
#   calibrate/bin/calibrate, target/dist/calibrate, target/release/calibrate, and calibrate on the PATH.
#
# Variables, all optional: DEVICE (default 0), MODEL (default llama-3.1-8b; a preset or a config.json), LADDER (captured
# sizes), STEPS (the recorded steps to replay, default calibrate/steps.jsonl). For tests: FULL_LIMIT, QUICK_LIMIT and
# REPLAY_LIMIT (what calibrate is told, default 60s, 12s and 15s), FULL_OPTIONS (for both full calibrations), PART_LIMIT
# (seconds for every part instead of its own).
#
# Every part has a time limit of its own, and the failure of one stops no other. Exit codes: 0 all parts passed, 1 some did
# not, 2 wrong use, 4 no GPU, or no binary that runs here.
set -uo pipefail

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

[ $# -eq 1 ] || usage
case $1 in -*) usage ;; esac

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
device=${DEVICE:-0}
model=${MODEL:-llama-3.1-8b}
steps=${STEPS:-$here/steps.jsonl}
ladder=${LADDER:-1,2,4,8,16,32,64,128,256,512}
full_limit=${FULL_LIMIT:-60s}
read -r -a full_options <<<"${FULL_OPTIONS:-}"
quick_limit=${QUICK_LIMIT:-12s}
replay_limit=${REPLAY_LIMIT:-15s}

find_binary() {
    if [ -n "${CALIBRATE:-}" ]; then
        printf '%s\n' "$CALIBRATE"
        return
    fi
    local path
    for path in "$here/bin/calibrate" "$root/target/dist/calibrate" "$root/target/release/calibrate"; do
        if [ -x "$path" ]; then
            printf '%s\n' "$path"
            return
        fi
    done
    command -v calibrate || true
}

calibrate=$(find_binary)
if [ -z "$calibrate" ] || ! reason=$("$calibrate" --version 2>&1); then
    echo "error: no calibrate that runs here: ${calibrate:-none was found}${reason:+ ($reason)}" >&2
    echo "  help: build it elsewhere (cargo build --profile dist -p calibrate) and set CALIBRATE to its path" >&2
    exit 4
fi
mkdir -p -- "$1" || exit 2
out=$(cd "$1" && pwd) || exit 2

log=$out/log.txt
profile_a=$out/profile-a.toml
profile_b=$out/profile-b.toml
rules=$out/rules.toml
replay=$out/replay.json
pytorch=$out/pytorch.json
summary=$out/summary.txt
rm -f -- "$log" "$profile_a" "$profile_b" "$rules" "$replay" "$pytorch" "$summary"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf -- "$scratch"' EXIT

{
    "$calibrate" --version
    date -u '+%Y-%m-%dT%H:%M:%SZ'
    uname -srm
    echo "device $device, model $model"
} >"$log" 2>&1

passed=0
failed=0
lines=()

note() {
    lines+=("$(printf '%-24s %-32s %4ss' "$1" "$2" "$3")")
    printf '%s\n' "${lines[-1]}"
}

# part NAME SECONDS COMMAND...: runs one part under its time limit; all that it says goes to the log.
part() {
    local name=$1 limit=${PART_LIMIT:-$2} code start=$SECONDS result
    shift 2
    printf '\n== %s\n$ %s\n' "$name" "$*" >>"$log"
    timeout --kill-after=5 "$limit" "$@" </dev/null >>"$log" 2>&1
    code=$?
    case $code in
        0) result=passed ;;
        124 | 137) result="TIMED OUT after ${limit}s" ;;
        *) result="FAILED, exit code $code" ;;
    esac
    if [ "$code" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '== %s: %s\n' "$name" "$result" >>"$log"
    note "$name" "$result" $((SECONDS - start))
    return "$code"
}

skip() {
    printf '\n== %s: skipped: %s\n' "$1" "$2" >>"$log"
    note "$1" "skipped: $2" 0
}

# cuBLASLt comes with PyTorch's packages: without one on the loader's path, theirs is used.
has_torch=no
if command -v python3 >/dev/null && timeout 15 python3 -c 'import torch' >/dev/null 2>&1; then
    has_torch=yes
    if [ -z "${RUNGWISE_CUBLASLT:-}" ]; then
        found=$(timeout 15 python3 "$here/pytorch_graphs.py" --find-cublaslt 2>/dev/null) || found=
        if [ -n "$found" ]; then
            export RUNGWISE_CUBLASLT=$found
            echo "cuBLASLt $found" >>"$log"
        fi
    fi
fi

options=(--device "$device" --model "$model")
measuring=("${options[@]}" --ladder "$ladder" --no-progress)
# A calibration that is ended leaves partial results beside its file: those are for the scratch folder.
# A profile is called what its file is called, so each is written under its own name there.
calibration() {
    local name=$1 seconds=$2 file=$3 written
    shift 3
    written=$scratch/${file##*/}
    part "$name" "$seconds" "$calibrate" "${measuring[@]}" "$@" --out "$written" || return
    if [ "$written" != "$file" ]; then mv -- "$written" "$file"; fi
}

# Without a GPU every part would fail alike: one message says why.
reason=$(timeout 10 "$calibrate" --list 2>&1 >/dev/null </dev/null)
if [ $? -eq 4 ]; then
    printf '%s\n' "$reason" >>"$log"
    printf '%s\n' "$reason" >"$summary"
    printf '%s\n' "$reason" >&2
    exit 4
fi

part "self-check" 45 "$calibrate" --self-check --device "$device"
part "probe-rules" 15 "$calibrate" --probe-rules --device "$device" --out "$rules"
calibration "quick calibration" 20 "$scratch/quick.toml" --quick --time-limit "$quick_limit"
calibration "full calibration" 75 "$profile_a" --time-limit "$full_limit" "${full_options[@]}"
calibration "full calibration again" 75 "$profile_b" --time-limit "$full_limit" "${full_options[@]}"
if [ -f "$profile_a" ] && [ -f "$profile_b" ]; then
    printf '\n== difference of the two full calibrations\n' >>"$log"
    "$calibrate" diff "$profile_a" "$profile_b" >"$scratch/diff.txt" 2>&1
    cat "$scratch/diff.txt" >>"$log"
fi
part "replay" 25 "$calibrate" replay "$steps" "${options[@]}" --time-limit "$replay_limit" --out "$replay"
if [ "$has_torch" = yes ]; then
    part "PyTorch cross-check" 20 python3 "$here/pytorch_graphs.py" --device "$device" --out "$pytorch"
else
    skip "PyTorch cross-check" "python3 has no torch"
fi

# What a part wrote.
section() {
    sed -n "/^== $1\$/,/^== $1: /p" "$log"
}

{
    head -n 4 "$log"
    echo
    printf '%s\n' "${lines[@]}"
    echo
    if [ -s "$scratch/diff.txt" ]; then
        echo "two full calibrations:"
        tail -n 6 "$scratch/diff.txt"
        echo
    fi
    if [ -f "$replay" ]; then
        section replay | sed -n '/^device time/,/^$/p'
        section replay | grep '^rank agreement'
        echo
    fi
    if grep -q "driver double" "$log"; then
        echo "The tests' driver double answered: nothing here comes from a GPU."
    fi
    echo "$passed parts passed, $failed did not; ${SECONDS} s in all"
} >"$summary"
tail -n 2 "$summary"
[ "$failed" -eq 0 ]
