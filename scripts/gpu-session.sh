#!/bin/sh
# Everything that is done on a GPU before its records are committed: one command, a short table at the end, all logs and
# records in one folder. Needs gdpa-jit (linked statically, as `make` does) and NVRTC; no compiler, no make.
#
#     scripts/gpu-session.sh [OPTION...] PROGRAM FOLDER
#
#     --jagged              the benchmark of the public shapes, too
#     --sanitize            compute-sanitizer, too
#     --conformance FILE    the emulator's conformance program (`make conformance` builds it)
#     --only STEP,STEP      some steps: doctor warm default portable short whole pairs public bench-portable
#                           bench-forward bench-backward
#                           bench-jagged conformance memcheck racecheck synccheck initcheck
#                           verify and bench compile what they lack on all processors; warm does it once for all of them.
#     --seconds SECONDS     of each case of the benchmark (1.2)
#     --limit SECONDS       of the whole session (540): a step for which no time is left is not run, and counts as failed
#
# Leaves FOLDER/hardware/<gpu>.jsonl for tests/hardware, FOLDER/results/<gpu>.jsonl for bench/results, FOLDER/*.txt. The
# exit code is 0 when every step was run and passed. Kernels are kept in GDPAJIT_CACHE_DIR, or in a folder that is removed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
only=,doctor,warm,default,portable,short,whole,pairs,public,bench-portable,bench-forward,bench-backward,
conformance=
seconds=1.2
limit=540

usage() {
    echo "gpu-session: $1; usage: scripts/gpu-session.sh [--jagged] [--sanitize] [--conformance FILE] [--only STEPS]" \
        "[--seconds SECONDS] [--limit SECONDS] PROGRAM FOLDER" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --jagged) only="${only}bench-jagged," ;;
    --sanitize) only="${only}memcheck,synccheck,initcheck,racecheck," ;;
    --conformance | --only | --seconds | --limit)
        [ $# -gt 1 ] || usage "$1 needs a value"
        case $1 in
        --conformance) conformance=$2 ;;
        --only) only=",$2," ;;
        --seconds) seconds=$2 ;;
        --limit) limit=$2 ;;
        esac
        shift
        ;;
    -*) usage "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
[ $# = 2 ] || usage "$# arguments, not 2"
program=$1
folder=$2
[ -x "$program" ] || usage "$program is no program"
case $program in
*/*) ;;
*) program=./$program ;;
esac
if [ -n "$conformance" ]; then
    [ -x "$conformance" ] || usage "$conformance is no program"
    only="${only}conformance,"
fi
mkdir -p "$folder/hardware" "$folder/results" || exit 1
if [ -z "${GDPAJIT_CACHE_DIR:-}" ]; then
    GDPAJIT_CACHE_DIR=$(mktemp -d) || exit 1
    trap 'rm -rf "$GDPAJIT_CACHE_DIR"' EXIT
fi
export GDPAJIT_CACHE_DIR

begin=$(date +%s)
bad=0
table=$(mktemp) || exit 1

# step NAME SECONDS LOG COMMAND...: runs a command when its step is wanted, for at most that time. The line that tells most
# goes into the table: the last one of a summary, else the last one.
step() {
    name=$1
    allowed=$2
    log=$folder/$3
    shift 3
    case $only in
    *,"$name",*) ;;
    *) return ;;
    esac
    start=$(date +%s)
    left=$((limit - start + begin))
    if [ "$left" -lt "$allowed" ]; then
        allowed=$left
    fi
    if [ "$allowed" -lt 3 ]; then
        printf '%-8s %-15s %5s    %s\n' 'NOT RUN' "$name" - "no time is left of $limit s" >>"$table"
        bad=1
        return
    fi
    printf '\n===== %s: %s\n' "$name" "$*" >>"$log"
    lines=$(wc -l <"$log")
    timeout -k 5 "$allowed" "$@" >>"$log" 2>&1 </dev/null
    code=$?
    word=ok
    why=
    if [ "$code" = 124 ] || [ "$code" = 137 ]; then
        word=TIMEOUT
        why="not done after $allowed s: "
    elif [ "$code" != 0 ]; then
        word=FAILED
        why="exit code $code: "
    fi
    [ "$word" = ok ] || bad=1
    said=$(tail -n "+$((lines + 1))" "$log" | awk '
        /^(gdpa-jit: |sanitize-gpu: |failed |ok +device |[0-9]+ kernels: )/ { telling = $0 }
        /[^ ]/ { last = $0 }
        END { print telling != "" ? telling : last }' | cut -c 1-150)
    printf '%-8s %-15s %5s s  %s%s\n' "$word" "$name" "$(($(date +%s) - start))" "$why" "$said" >>"$table"
}

verify() {
    step "$1" "$2" verify.txt "$program" verify --matrix "$1" --record "$folder/hardware" --progress never
}

bench() {
    step "bench-$1" "$2" bench.txt "$program" bench --suite "$1" --seconds "$seconds" --record "$folder/results"
}

sanitizer() {
    step "$1" "$2" checks.txt "$here/sanitize-gpu.sh" "$program" "$1"
}

suites='--suite portable --suite forward --suite backward'
case $only in
*,bench-jagged,*) suites="$suites --suite jagged" ;;
esac
step doctor 30 setup.txt "$program" doctor
# shellcheck disable=SC2086 # a list of words
step warm 120 setup.txt "$program" warm --keep-going --progress never --matrix default --matrix portable \
    --matrix short --matrix whole --matrix pairs --matrix public $suites
verify default 100
verify portable 100
verify short 60
verify whole 60
verify pairs 60
verify public 110
bench portable 60
bench forward 180
bench backward 120
bench jagged 120
step conformance 60 checks.txt "$conformance" --gpu --record "$folder/conformance.txt"
sanitizer memcheck 90
sanitizer synccheck 90
sanitizer initcheck 90
sanitizer racecheck 90
rm -f "$folder"/hardware/*.new.* "$folder"/results/*.new.* "$folder"/*.new.*

# The table, what failed, and the rates; in FOLDER/summary.txt as well.
{
    if [ -e "$folder/verify.txt" ] && grep -q '^FAILED' "$folder/verify.txt"; then
        printf 'kernels that failed (all of them: verify.txt):\n'
        grep -A 1 '^FAILED' "$folder/verify.txt" | grep -v '^--$' | head -n 16 | cut -c 1-220
        printf '\n'
    fi
    for results in "$folder"/results/*.jsonl; do
        if [ -e "$results" ]; then
            printf 'rates (TFLOP/s, ratio to cuBLAS):\n'
            sed -n 's/^{"case":"\([^"]*\)".*"tflops":\([0-9.]*\).*"ratio":\([0-9.]*\|null\).*/\1 \2 \3/p' "$results" |
                awk '{ printf "  %-66s %6.1f  %s\n", $1, $2, $3 == "null" ? "-" : sprintf("%.3f", $3) }'
            printf '\n'
        fi
    done
    cat "$table"
    printf '%s: %s s in all; logs and records are in %s\n' "$([ "$bad" = 0 ] && echo passed || echo FAILED)" \
        "$(($(date +%s) - begin))" "$folder"
} | tee "$folder/summary.txt"
rm -f "$table"
exit "$bad"
