#!/bin/sh
# needs: nvrtc
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --jobs 1 --progress always --quiet 2>err.txt
wc -c <err.txt
gdpa-jit warm head_dim=40 activation=relu --arch sm_80 --jobs 1 --progress never 2>err.txt >out.txt
wc -c <err.txt
gdpa-jit warm head_dim=48 activation=relu --arch sm_80 --jobs 1 --progress always 2>err.txt >out.txt
grep -q '/1' err.txt && echo "a bar"
