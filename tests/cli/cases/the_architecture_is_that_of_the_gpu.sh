#!/bin/sh
# needs: fake
# Without arch= and --arch the first GPU says which; --arch is for another one, and a spec's own arch goes before both.
export GDPAJIT_LIBCUDA="$FAKE_DRIVER"
FAKE_DRIVER_DEVICES=80,90 gdpa-jit warm head_dim=32 activation=relu --quiet
FAKE_DRIVER_DEVICES=90 gdpa-jit warm head_dim=32 activation=relu --quiet
gdpa-jit warm head_dim=32 activation=relu --arch sm_86 --quiet
gdpa-jit warm head_dim=32 activation=relu arch=sm_89 --arch sm_86 --quiet
gdpa-jit list --columns target --sort target
gdpa-jit show source head_dim=32 activation=relu | grep -q 'arch=sm_90a' && echo 'the source is for it'
FAKE_DRIVER_DEVICES=75 gdpa-jit warm head_dim=32 activation=silu
echo "code $?"
