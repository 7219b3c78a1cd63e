#!/bin/sh
# The families whole and pairs: plans, the pass that they lack, shapes that they can hold.
for spec in 'bwd head_dim=128 activation=relu arch=sm_90a family=whole' 'bwd head_dim=128 activation=relu arch=sm_90a family=pairs'; do
    gdpa-jit show plan "$spec" | grep -E '^(family|cluster|reason: (cluster|block_n)):? '
    gdpa-jit verify --list --verbose "$spec" 2>/dev/null | sed -n '2s/^ *//p'
done
gdpa-jit show plan 'bwd head_dim=128 activation=relu arch=sm_90a' | grep '^reason: not family'
for spec in 'fwd head_dim=128 activation=relu arch=sm_90a family=pairs' \
    'bwd head_dim=64 activation=relu arch=sm_90a family=pairs' 'bwd head_dim=64 activation=relu arch=sm_80 family=whole'; do
    gdpa-jit show plan "$spec" 2>&1
    echo "rc $?"
done
