#!/bin/sh
# Runs fuzzers side by side, one a processor, for a time each: run-fuzz.sh SECONDS FOLDER FUZZER...
# FOLDER/NAME gets the corpus, the log and what was found. Exit 1 when anything was found.
set -u
if [ "${1:-}" = --one ]; then
    seconds=$2 folder=$3 fuzzer=$4
    name=${fuzzer##*/}
    found=$folder/$name
    mkdir -p "$found/corpus"
    if ! "$fuzzer" -max_total_time="$seconds" -max_len=8192 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$found/" "$found/corpus" >"$found/log" 2>&1; then
        tail -n 60 "$found/log"
        echo "$name: FAILED, the input is in $found"
        exit 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/log")
    echo "$name: nothing found in $seconds s${runs:+, runs: $runs}"
    exit 0
fi
if [ $# -lt 3 ]; then
    echo "usage: run-fuzz.sh SECONDS FOLDER FUZZER..." >&2
    exit 2
fi
seconds=$1 folder=$2
shift 2
case $seconds in
'' | *[!0-9]* | 0)
    echo "run-fuzz.sh: FUZZ_SECONDS is '$seconds'; it must be a whole number of seconds, at least 1" >&2
    exit 2
    ;;
esac
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" "$0" --one "$seconds" "$folder"
