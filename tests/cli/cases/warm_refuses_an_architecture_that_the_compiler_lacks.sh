#!/bin/sh
# needs: fake
# Status 3 for the one; the others are compiled when asked to go on.
export FAKE_NVRTC_ARCHS=80,86
gdpa-jit warm head_dim=32 activation=relu --arch sm_120,sm_80 --jobs 1 2>err.txt
echo "code $?"
sed 's/.*: /: /' err.txt | head -n 1
gdpa-jit warm head_dim=32 activation=relu --arch sm_120,sm_80 --jobs 1 --keep-going 2>err.txt
echo "code $?"
