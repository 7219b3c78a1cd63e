#!/bin/sh
# needs: fake
# Workers store the kernels; that one could not, or had to make room, is not lost on the way.
GDPAJIT_CACHE_LIMIT=200k gdpa-jit warm head_dim=32,64,96,128 activation=relu,silu,gelu,exp --arch sm_80 --jobs 2 --quiet 2>&1 | sed 's/^gdpa-jit: [0-9]* of/gdpa-jit: N of/'
GDPAJIT_CACHE_LIMIT=200k gdpa-jit warm head_dim=40,72 activation=relu,silu,gelu,exp,tanh,square --arch sm_80 --jobs 2 --quiet >/dev/null 2>&1
echo "code $?"
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --cache-dir other --quiet
echo "code $?"
