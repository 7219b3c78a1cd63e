#!/bin/sh
# needs: fake
# What is in the cache can be listed and looked at on a machine without NVRTC.
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
export GDPAJIT_NVRTC=/no-such-folder/libnvrtc.so
gdpa-jit list --columns spec
for view in source plan ptx cubin log; do
    gdpa-jit show $view gdpa_fwd_sm80_d32 >out.txt || echo "show $view ended with $?"
    [ -s out.txt ] && echo "$view is there"
done
gdpa-jit show resources gdpa_fwd_sm80_d32 | cut -c 1-14
gdpa-jit cache verify
