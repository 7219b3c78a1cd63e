#!/bin/sh
# Status 3, and at once: nothing else can be compiled either.
export GDPAJIT_NVRTC=/no-such-folder/libnvrtc.so
gdpa-jit warm head_dim=32 activation=relu,silu --arch sm_80 --jobs 1 >out.txt 2>err.txt
echo "code $?"
sed 's/;.*//' out.txt
sed 's/^\(gdpa-jit: fwd [^:]*: \).*/\1REASON/' err.txt | grep -v '^    '
