#!/bin/sh
# What `make demo` shows once all is built: kernels compiled into a cache folder of its own, the list of them, one from
# near by, and, where there is a GPU, kernels run and checked against the reference.
#
#     scripts/demo.sh BUILD-FOLDER
set -eu
build=$1
program=$build/gdpa-jit
spec="fwd head_dim=128 activation=silu causal"
export GDPAJIT_CACHE_DIR="$build/demo-cache"

# title TEXT, then the command as a user would type it, and what it prints.
title() {
    printf '\n== %s\n' "$1"
}

show() {
    printf '$ gdpa-jit'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_=,./-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$program" "$@"
}

printf 'The kernels of this demo are kept in %s; for the same view by hand: export GDPAJIT_CACHE_DIR=%s\n' \
    "$GDPAJIT_CACHE_DIR" "$GDPAJIT_CACHE_DIR"

if scripts/has-gpu.sh; then
    arch=
else
    arch=sm_90a
fi

title "Compile the default kernels${arch:+ for $arch (no GPU here, and none is needed for this)}"
show warm --preset default ${arch:+--arch "$arch"}

title "What the cache holds now"
show list --limit 12

title "One kernel: what it costs, why it is cut this way, and how its source begins"
show show resources "$spec${arch:+ arch=$arch}"
show show plan "$spec${arch:+ arch=$arch}"
show show source "$spec${arch:+ arch=$arch}" --output "$build/demo.cu"
sed -n '1,40p' "$build/demo.cu"
printf '... %d lines in %s\n' "$(wc -l <"$build/demo.cu")" "$build/demo.cu"

if [ -z "$arch" ]; then
    title "Run kernels on this GPU and compare them with a float64 reference"
    show verify --matrix small
else
    title "There is no GPU here: nothing was run. On a machine with one, this checks kernels against a reference:"
    printf '%s\n' '$ gdpa-jit verify --matrix small'
fi
printf '\ndemo: done. Next: README.md, or %s --help\n' "$program"
