#!/bin/sh
# needs: fake
# Its process is killed, so that the program ends and leaves nothing behind.
FAKE_NVRTC_HANG=_d40_ gdpa-jit warm head_dim=32,40,48 activation=relu --arch sm_80 --jobs 1 --keep-going --timeout 2 2>err.txt | sed '/^slowest/,$d'
cat err.txt
gdpa-jit warm head_dim=32,40,48 activation=relu --arch sm_80 --jobs 1 | sed '/^slowest/,$d'
