#!/bin/sh
gdpa-jit verify --matrix small --seed 7
echo "code $?"
gdpa-jit verify head_dim=64 activation=silu --seed 7 --in-process
echo "code $?"
gdpa-jit verify --matrix small --seed 7 --record record.jsonl --quiet
echo "code $?"
test ! -e record.jsonl
