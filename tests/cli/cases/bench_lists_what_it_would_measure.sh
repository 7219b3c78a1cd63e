#!/bin/sh
gdpa-jit bench --list --suite jagged --filter k256 --filter fill
gdpa-jit bench --list head_dim=64,192 activation=silu causal layout_q=jagged layout_k=jagged
gdpa-jit bench --list --case fwd/dense/d64/q128/k128/h8x2/b1/fp16/relu/w3,-1 --json
