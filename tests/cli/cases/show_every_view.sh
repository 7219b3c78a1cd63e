#!/bin/sh
# needs: nvrtc
spec='fwd head_dim=32 activation=relu arch=sm_80'
gdpa-jit show ptx "$spec" | grep '^\.target'
gdpa-jit show cubin "$spec" >kernel.cubin
head -c 4 kernel.cubin | tail -c 3
echo
gdpa-jit show log "$spec" | grep -c 'ptxas info'
gdpa-jit show resources "$spec" | cut -c 1-14
gdpa-jit show resources "$spec" --json
for view in source plan ptx cubin resources log; do
    gdpa-jit show $view "$spec" >by_spec
    gdpa-jit show $view gdpa_fwd_sm80_d32 >by_name || echo "show $view by name ended with $?"
    cmp by_spec by_name && echo "$view: the same by spec and by name"
done
