#!/usr/bin/env bash
# Everything that calibrate says about one GPU, by one command: no network, no cargo, no toolkit, at most five minutes.
#
#   calibrate/on-gpu.sh OUTDIR
#
# OUTDIR gets at most seven files, and must hold none of an earlier run. GPU.md, beside this script, says how to read them.
# It cannot be resumed: a run that was interrupted (Ctrl-C) or disturbed is made again, into another folder.
#
# The binary, stripped, is taken from $CALIBRATE if that is set, else from the first of these that is there:
#   calibrate/bin/calibrate, target/dist/calibrate, target/release/calibrate, and calibrate on the PATH.
#
# Variables, all optional: DEVICE (default 0), MODEL (default llama-3.1-8b; a preset or a config.json), LADDER (captured
# sizes), STEPS (the recorded steps to replay, default calibrate/steps.jsonl). For tests: FULL_LIMIT, QUICK_LIMIT and
# REPLAY_LIMIT (what calibrate is told, default 60s, 12s and 15s), FULL_OPTIONS (for both full calibrations), PART_LIMIT
# (seconds for every part instead of its own), TOTAL_LIMIT (seconds for all of them, default 285).
#
# Every part has a time limit of its own, and the failure of one stops no other. Exit codes: 0 all parts passed, 1 some did
# not, 2 wrong use, or OUTDIR holds results, 4 no GPU, or no binary that runs here, 130 interrupted.
set -uo pipefail

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
}

case ${1:-} in
    -h | --help)
        usage
        exit 0
        ;;
    -*) set -- ;;
esac
if [ $# -ne 1 ]; then
    usage >&2
    exit 2
fi

# Results of an earlier run are never touched.
for name in log.txt profile-a.toml profile-b.toml rules.toml replay.json pytorch.json summary.txt; do
    if [ -e "$1/$name" ]; then
        echo "error: $1 holds results of an earlier run: $name" >&2
        echo "  help: name another folder, or move them away; nothing was run, and nothing of them was changed" >&2
        exit 2
    fi
done

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
total_limit=${TOTAL_LIMIT:-285}
# Seconds between asking a part to end and ending it.
grace=5

# What runs, if anything does. It is in the background, for a shell notices a signal only while it waits.
running=
interrupted=no
interrupt() {
    interrupted=yes
    if [ -n "$running" ]; then kill -TERM "$running" 2>/dev/null; fi
}
trap interrupt INT TERM

# limited SECONDS COMMAND...: its exit code; 124 or 137 if it took longer. After a signal nothing more is started.
limited() {
    local limit=$1 code
    shift
    [ "$interrupted" = no ] || return 130
    timeout --kill-after=$grace "$limit" "$@" </dev/null &
    running=$!
    # The signal may have come before there was anything to end.
    if [ "$interrupted" = yes ]; then kill -TERM "$running" 2>/dev/null; fi
    wait "$running"
    code=$?
    # A signal ends the waiting, not what is waited for.
    while kill -0 "$running" 2>/dev/null; do
        wait "$running"
        code=$?
    done
    running=
    [ "$interrupted" = no ] || return 130
    return "$code"
}

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
scratch=$(mktemp -d) || exit 1
trap 'rm -rf -- "$scratch"' EXIT
reason=
if [ -z "$calibrate" ] || ! limited 10 "$calibrate" --version >"$scratch/version" 2>&1; then
    [ "$interrupted" = no ] || exit 130
    if [ -s "$scratch/version" ]; then reason=$(head -n 1 "$scratch/version"); fi
    echo "error: no calibrate that runs here: ${calibrate:-none was found}${reason:+ ($reason)}" >&2
    echo "  help: build it elsewhere (cargo build --profile dist -p calibrate) and set CALIBRATE to its path" >&2
    exit 4
fi
# Without a GPU every part would fail alike: one message says why, and no file stands in the way of the next run.
limited 10 "$calibrate" --list 2>"$scratch/list" >/dev/null
case $? in
    4)
        cat "$scratch/list" >&2
        exit 4
        ;;
    130) exit 130 ;;
esac
mkdir -p -- "$1" || exit 2
out=$(cd "$1" && pwd) || exit 2

log=$out/log.txt
profile_a=$out/profile-a.toml
profile_b=$out/profile-b.toml
rules=$out/rules.toml
replay=$out/replay.json
pytorch=$out/pytorch.json
summary=$out/summary.txt

{
    cat "$scratch/version"
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
    local name=$1 limit=${PART_LIMIT:-$2} code start=$SECONDS result left
    shift 2
    [ "$interrupted" = no ] || return 130
    left=$((total_limit - SECONDS))
    if [ "$left" -lt "$limit" ]; then limit=$left; fi
    printf '\n== %s\n$ %s\n' "$name" "$*" >>"$log"
    if [ "$limit" -gt 0 ]; then
        limited "$limit" "$@" >>"$log" 2>&1
        code=$?
    else
        code=124
    fi
    case $code in
        0) result=passed ;;
        130) result="INTERRUPTED" ;;
        124 | 137)
            result="TIMED OUT after ${limit}s"
            if [ "$limit" -le 0 ]; then result="NOT RUN, no time was left"; fi
            ;;
        *) result="FAILED, exit code $code" ;;
    esac
    if [ "$code" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '== %s: %s\n' "$name" "$result" >>"$log"
    note "$name" "$result" $((SECONDS - start))
    return "$code"
}

skip() {
    [ "$interrupted" = no ] || return
    printf '\n== %s: skipped: %s\n' "$1" "$2" >>"$log"
    note "$1" "skipped: $2" 0
}

# What a part wrote.
section() {
    sed -n "/^== $1\$/,/^== $1: /p" "$log"
}

write_summary() {
    {
        head -n 4 "$log"
        echo
        if [ ${#lines[@]} -gt 0 ]; then printf '%s\n' "${lines[@]}"; fi
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
        if [ "$interrupted" = yes ]; then echo "Interrupted: what is missing above was not run."; fi
        echo "$passed parts passed, $failed did not; ${SECONDS} s in all"
    } >"$summary"
}

# cuBLASLt comes with PyTorch's packages: without one on the loader's path, theirs is used.
has_torch=no
if command -v python3 >/dev/null && limited 15 python3 -c 'import torch' >/dev/null 2>&1; then
    has_torch=yes
    if [ -z "${RUNGWISE_CUBLASLT:-}" ]; then
        limited 15 python3 "$here/pytorch_graphs.py" --find-cublaslt >"$scratch/cublaslt" 2>/dev/null
        found=$(cat "$scratch/cublaslt")
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

part "self-check" 45 "$calibrate" --self-check --device "$device"
part "probe-rules" 15 "$calibrate" --probe-rules --device "$device" --out "$rules"
calibration "quick calibration" 20 "$scratch/quick.toml" --quick --time-limit "$quick_limit"
calibration "full calibration" 75 "$profile_a" --time-limit "$full_limit" "${full_options[@]}"
calibration "full calibration again" 75 "$profile_b" --time-limit "$full_limit" "${full_options[@]}"
if [ "$interrupted" = no ] && [ -f "$profile_a" ] && [ -f "$profile_b" ]; then
    printf '\n== difference of the two full calibrations\n' >>"$log"
    limited 5 "$calibrate" diff "$profile_a" "$profile_b" >"$scratch/diff.txt" 2>&1
    cat "$scratch/diff.txt" >>"$log"
fi
part "replay" 25 "$calibrate" replay "$steps" "${options[@]}" --time-limit "$replay_limit" --out "$replay"
if [ "$has_torch" = yes ]; then
    part "PyTorch cross-check" 20 python3 "$here/pytorch_graphs.py" --device "$device" --out "$pytorch"
else
    skip "PyTorch cross-check" "python3 has no torch"
fi

write_summary
tail -n 2 "$summary"
[ "$interrupted" = no ] || exit 130
[ "$failed" -eq 0 ]
