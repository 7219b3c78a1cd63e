#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --quiet
for view in resources ptx; do
    gdpa-jit show $view gdpa_fwd_sm80 >out.txt
    echo "code $?, $(wc -c <out.txt) bytes"
done
