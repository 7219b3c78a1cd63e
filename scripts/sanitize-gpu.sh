#!/bin/sh
# Runs the small verification matrix under every tool of compute-sanitizer. Needs a GPU and compute-sanitizer, which is
# part of a CUDA toolkit.
#
#     scripts/sanitize-gpu.sh PROGRAM
set -u
program=$1
sanitizer=
for candidate in "$(command -v compute-sanitizer)" "${CUDA_HOME:-}/bin/compute-sanitizer" \
    /usr/local/cuda/bin/compute-sanitizer; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then
        sanitizer=$candidate
        break
    fi
done
if [ -z "$sanitizer" ]; then
    echo "sanitize-gpu: compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin; set CUDA_HOME to a toolkit that has it" >&2
    exit 1
fi
if ! scripts/has-gpu.sh; then
    echo "sanitize-gpu: there is no GPU with a driver here" >&2
    exit 1
fi

# Kernels are compiled first, so that the tools watch launches alone.
GDPAJIT_CACHE_DIR=$(mktemp -d)
export GDPAJIT_CACHE_DIR
trap 'rm -rf "$GDPAJIT_CACHE_DIR"' EXIT
"$program" warm --matrix small --quiet || exit 1

status=0
for tool in memcheck racecheck synccheck initcheck; do
    printf '\n==> %s\n' "$tool"
    if "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 "$program" verify --matrix small; then
        echo "sanitize-gpu: $tool clean"
    else
        echo "sanitize-gpu: $tool FAILED"
        status=1
    fi
done
exit $status
