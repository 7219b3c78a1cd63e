#!/bin/sh
# needs: fake
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
echo 'this is no record' >record.jsonl
gdpa-jit verify head_dim=64 activation=relu,silu --shapes no-queries --seed 1 --record record.jsonl --quiet >out.txt
echo "code $?"
cat record.jsonl
