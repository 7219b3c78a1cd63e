#!/bin/sh
# How many kernels each of them is.
count() {
    gdpa-jit warm --dry-run "$@" | wc -l
}
count head_dim=64,128 activation=relu,silu causal=0,1 --arch sm_80
count head_dim=64,128 activation=relu,silu causal=all --arch sm_80,sm_90a
count head_dim=64 activation=all dtype=all --arch all
count fwd head_dim=64 activation=relu fwd head_dim=128 activation=silu --arch 80
count --preset minimal --arch sm_80
count --preset default --arch sm_80
count --preset minimal --preset default --arch sm_80
