#!/bin/sh
# `gdpa-jit warm` of 500 kernels with one and with two compiles at a time, three times in turn: wall time and processor
# time of each run, and how many times as fast two are (medians). Says what else the machine does: with other work on it
# the ratio of wall times is that of the other work.
#     scripts/measure-warm.sh [PROGRAM]       default build/gdpa-jit
set -u
program=${1:-build/gdpa-jit}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
awk 'BEGIN {
    split("identity relu relu_square leaky_relu gelu silu hardswish sigmoid tanh exp", activations, " ")
    for (dim = 8; dim <= 200; dim += 8)
        for (i = 1; i <= 10; i++)
            for (causal = 0; causal <= 1; causal++)
                printf "fwd head_dim=%d activation=%s causal=%d family=portable arch=sm_80\n", dim, activations[i], causal
}' >"$scratch/specs"
echo "$(wc -l <"$scratch/specs") kernels; $(nproc) processors; load average $(cut -d' ' -f1 /proc/loadavg)"
for round in 1 2 3; do
    for jobs in 1 2; do
        # `times` gives the time of the children in its second line.
        (
            "$program" warm --file "$scratch/specs" --jobs $jobs --cache-dir "$scratch/cache-$round-$jobs" --json \
                >"$scratch/out" || exit 1
            times >"$scratch/times"
        ) || exit 1
        # 1m2.5s 0m3.25s: user and system
        sed -n 2p "$scratch/times" | tr 'ms' '  ' | awk '{ printf "%.1f\n", ($1 + $3) * 60 + $2 + $4 }' >"$scratch/cpu"
        wall=$(tail -n 1 "$scratch/out" | sed 's/.*"seconds":\([0-9.]*\).*/\1/')
        peak=$(tail -n 1 "$scratch/out" | sed 's/.*"worker_peak_bytes":\([0-9]*\).*/\1/')
        echo "round $round, --jobs $jobs: $wall s, $(cat "$scratch/cpu") s of processors, $((peak >> 20)) MiB a process"
        echo "$wall" >>"$scratch/wall-$jobs"
        rm -rf "$scratch/cache-$round-$jobs"
    done
done
median() {
    sort -n "$1" | sed -n 2p
}
awk -v one="$(median "$scratch/wall-1")" -v two="$(median "$scratch/wall-2")" \
    'BEGIN { printf "medians: %.1f s and %.1f s: %.2f times as fast\n", one, two, one / two }'
