#!/bin/sh
# What only a GPU can show, through the program and the installed interface: kernels against the reference, a warmed
# cache that needs no compiler, measurements, and every instruction wrapper against the emulator. Without a GPU each is
# skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/tap.sh
build=${BUILD:-build}
program=$build/gdpa-jit
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export GDPAJIT_CACHE_DIR="$scratch/cache"

# on_gpu NAME COMMAND...
on_gpu() {
    if scripts/has-gpu.sh; then
        tap_test "$@"
    else
        tap_skip "$1" "no GPU"
    fi
}

small_matrix_verifies() {
    "$program" verify --matrix small --seed 1 --progress never
}

verifies_without_compiler() {
    "$program" warm head_dim=64 activation=relu --quiet &&
        GDPAJIT_MODE=strict GDPAJIT_NVRTC=/no/such/libnvrtc.so "$program" verify head_dim=64 activation=relu --seed 2
}

bench_measures() {
    "$program" bench --case fwd/dense/d128/q1024/k1024/h4/b2/bf16/relu --seconds 0.2 --no-cublas --json >"$scratch/bench" &&
        grep -q '"tflops"' "$scratch/bench"
}

example_computes() {
    "${CC:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L -I include examples/attention.c -o "$scratch/attention" \
        "$build/libgdpajit.so" -lm -ldl && LD_LIBRARY_PATH=$build "$scratch/attention"
}

wrappers_agree_with_the_emulator() {
    GDPAJIT_NVRTC=${GDPAJIT_NVRTC:-$(scripts/find-nvrtc.sh)} "$build/conformance" --gpu
}

on_gpu small_matrix_agrees_with_the_reference small_matrix_verifies
on_gpu warmed_cache_runs_without_a_compiler verifies_without_compiler
on_gpu bench_states_a_rate bench_measures
on_gpu attention_example_computes_what_it_says example_computes
on_gpu wrappers_do_on_the_gpu_what_the_emulator_does wrappers_agree_with_the_emulator
tap_end
