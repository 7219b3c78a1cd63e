#!/bin/sh
# needs: fake
# The compiler's own words are shown; what is left is named; --keep-going tries all.
FAKE_NVRTC_FAIL=6 gdpa-jit warm head_dim=32,40,48 activation=relu --arch sm_80 --jobs 1
echo "code $?"
FAKE_NVRTC_FAIL=6 gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --jobs 1 --keep-going --json 2>err.txt
echo "code $?"
gdpa-jit warm head_dim=32,40,48 activation=relu --arch sm_80 --jobs 1 | sed '/^slowest/,$d'
