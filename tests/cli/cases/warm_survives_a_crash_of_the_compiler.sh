#!/bin/sh
# needs: fake
# The process that compiled is gone, its kernel is marked failed, the others are done.
FAKE_NVRTC_CRASH=_d40_ gdpa-jit warm head_dim=32,40,48 activation=relu --arch sm_80 --jobs 1 --keep-going 2>err.txt | sed '/^slowest/,$d'
cat err.txt
FAKE_NVRTC_CRASH=_d40_ gdpa-jit warm head_dim=40,48,56 activation=relu --arch sm_80 --jobs 2 --keep-going --json >out.txt 2>err.txt
echo "code $?"
grep -o '"state":"[a-z]*","spec":"fwd head_dim=[0-9]*' out.txt | sort
gdpa-jit warm head_dim=32,40,48,56 activation=relu --arch sm_80 --jobs 1 | sed '/^slowest/,$d'
