#!/bin/sh
gdpa-jit bench
echo "code $?"
gdpa-jit bench --case fwd/dense/d64/q128/k128/h1/b1/bf16/relu --record record.jsonl --json
echo "code $?"
test ! -e record.jsonl
