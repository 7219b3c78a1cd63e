#!/bin/sh
# Prints the NVRTC library that the project's own builds and tests use (as GDPAJIT_NVRTC), or nothing and exit code 1.
# Order: GDPAJIT_NVRTC, CUDA toolkits, the loader's cache, the private folder that setup.sh fills. Only CUDA 13 is
# taken, because the tests compare what the compiler made; the library itself also works with CUDA 12 (docs/install.md).
set -u
soname=libnvrtc.so.13
root=$(cd "$(dirname "$0")/.." && pwd)

if [ -n "${GDPAJIT_NVRTC:-}" ]; then
    if [ ! -e "$GDPAJIT_NVRTC" ]; then
        echo "find-nvrtc.sh: GDPAJIT_NVRTC is set to $GDPAJIT_NVRTC, which does not exist; correct or unset it" >&2
        exit 1
    fi
    echo "$GDPAJIT_NVRTC"
    exit 0
fi

if [ "${GDPAJIT_SETUP_NO_TOOLKIT:-0}" != 1 ]; then
    for toolkit in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-13* /opt/cuda; do
        for folder in lib64 lib "targets/$(uname -m)-linux/lib"; do
            if [ -n "$toolkit" ] && [ -e "$toolkit/$folder/$soname" ]; then
                echo "$toolkit/$folder/$soname"
                exit 0
            fi
        done
    done
    known=$( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n "s|.*$soname .*=> ||p" | head -n 1)
    if [ -n "$known" ] && [ -e "$known" ]; then
        echo "$known"
        exit 0
    fi
fi

private="$root/.deps/nvidia-cuda-nvrtc/$soname"
if [ -e "$private" ]; then
    echo "$private"
    exit 0
fi
exit 1
