#!/bin/sh
# needs: fake
# Each launch but the first fails: the process that had it is replaced, and the next kernel gets its turn.
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA FAKE_GPU_FAIL_LAUNCH=1
export GDPAJIT_JOBS=2
for mode in '' --in-process; do
    # shellcheck disable=SC2086 # nothing, or one word
    gdpa-jit verify head_dim=64 activation=relu,silu --shapes no-queries,all-empty --seed 1 $mode >out.txt 2>err.txt
    echo "code $?"
    sed 's/ *[0-9.]* s  fwd/ T s  fwd/' out.txt
    sed 's/in [0-9]* s/in T s/' err.txt
done
