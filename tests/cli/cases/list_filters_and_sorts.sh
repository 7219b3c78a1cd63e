#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32,40 activation=relu,identity dtype=bf16,fp16 causal=0,1 --arch sm_80 --quiet
gdpa-jit list --columns spec --sort spec
echo "--- head_dim 40, causal"
gdpa-jit list head_dim=40 causal --columns spec --sort spec
echo "--- fp16 or bf16, relu, not causal, largest first"
gdpa-jit list dtype=fp16,bf16 act=relu causal=0 fwd --columns spec --sort spec --reverse
echo "--- a limit, and json"
gdpa-jit list --sort spec --limit 1 --columns target,spec --json
echo "--- by name"
gdpa-jit list --name d40_fp16_identity --columns name --sort name
echo "--- none"
gdpa-jit list head_dim=256
gdpa-jit list bwd
