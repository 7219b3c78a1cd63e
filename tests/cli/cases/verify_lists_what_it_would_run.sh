#!/bin/sh
gdpa-jit verify --matrix small --list --filter gelu --filter jagged --arch sm_90a
gdpa-jit verify --matrix public --list --verbose | head -2
gdpa-jit verify head_dim=64 activation=silu causal=0,1 --list --shapes edges,single
gdpa-jit verify --list --filter head_dim=40 --filter elu --json --shapes small
