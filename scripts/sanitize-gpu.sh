#!/bin/sh
# Runs small kernels under the tools of compute-sanitizer, which is part of a CUDA toolkit. Needs a GPU, gdpa-jit and
# NVRTC; no compiler, no make.
#
#     scripts/sanitize-gpu.sh PROGRAM [TOOL...]
#
# TOOL: memcheck, racecheck, synccheck, initcheck; all of them when none is named. The exit code is 0 when each of them ran
# to its end, found nothing, and every result was right. Racecheck follows each access to shared memory and is a hundred
# times slower than a launch: it gets the tiny matrix, the others the small one. GDPA_SANITIZE_MATRIX names another.
set -u
[ $# -gt 0 ] || {
    echo "sanitize-gpu: no program; usage: scripts/sanitize-gpu.sh PROGRAM [TOOL...]" >&2
    exit 2
}
program=$1
shift
[ $# -gt 0 ] || set -- memcheck synccheck initcheck racecheck

sanitizer=
for candidate in "$(command -v compute-sanitizer)" "${CUDA_HOME:-}/bin/compute-sanitizer" \
    "${CUDA_HOME:-}/compute-sanitizer/compute-sanitizer" /usr/local/cuda*/bin/compute-sanitizer \
    /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/cuda/bin/compute-sanitizer; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then
        sanitizer=$candidate
        break
    fi
done
if [ -z "$sanitizer" ]; then
    echo "sanitize-gpu: compute-sanitizer is neither in PATH nor in a toolkit under /usr/local; set CUDA_HOME to one" >&2
    exit 1
fi

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
if [ -z "${GDPAJIT_CACHE_DIR:-}" ]; then
    GDPAJIT_CACHE_DIR=$folder/cache
    export GDPAJIT_CACHE_DIR
fi

# Kernels are compiled first, so that the tools watch launches alone. A tool is believed only when it summed up without an
# error and the program said by its own exit code, which the tool passes on, that all results were right.
status=0
for tool in "$@"; do
    matrix=small
    [ "$tool" != racecheck ] || matrix=tiny
    matrix=${GDPA_SANITIZE_MATRIX:-$matrix}
    printf '\n==> %s, matrix %s\n' "$tool" "$matrix"
    "$program" warm --matrix "$matrix" --quiet || exit 1
    start=$(date +%s)
    {
        "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 20 "$program" verify --matrix "$matrix" \
            --in-process --progress never 2>&1 </dev/null
        echo $? >"$folder/code"
    } | tee "$folder/log"
    code=$(cat "$folder/code")
    took="$(($(date +%s) - start)) s, matrix $matrix"
    if [ "$code" != 0 ]; then
        echo "sanitize-gpu: $tool FAILED (exit code $code, $took)"
        status=1
    elif ! grep -Eq '(ERROR|RACECHECK) SUMMARY: 0 (errors|hazards)' "$folder/log"; then
        echo "sanitize-gpu: $tool FAILED (no summary without errors, $took)"
        status=1
    else
        echo "sanitize-gpu: $tool clean ($took)"
    fi
done
exit $status
