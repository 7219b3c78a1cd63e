#!/bin/sh
# needs: fake
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
gdpa-jit verify head_dim=64 activation=relu --shapes single,no-queries --seed 1 --verbose 2>err.txt | grep '^  ' | sed 's/ *[0-9.]* s$/ T s/' | cut -c 1-70
gdpa-jit verify head_dim=64 activation=relu --shapes no-queries --seed 1 --verbose --json 2>err.txt | grep verify_case
