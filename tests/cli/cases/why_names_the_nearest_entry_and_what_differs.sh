#!/bin/sh
# needs: fake
gdpa-jit why head_dim=32 activation=relu arch=sm_80 | sed '/^name/d; /^key/d'
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --jobs 1 >/dev/null
gdpa-jit why head_dim=32 activation=relu arch=sm_80
echo "code $?"
FAKE_NVRTC_VERSION=13.2 gdpa-jit why head_dim=32 activation=relu arch=sm_80
echo "code $?"
FAKE_NVRTC_VERSION=13.2 gdpa-jit why head_dim=32 activation=relu arch=sm_80 --json
gdpa-jit why head_dim=32 activation=relu --arch sm_80 | sed '/^name/d; /^key/d'
gdpa-jit why head_dim=32 activation=relu --arch sm_80,sm_90a
gdpa-jit why fwd head_dim=32 activation=relu bwd head_dim=64
gdpa-jit why
gdpa-jit why head_dim=31 activation=relu
