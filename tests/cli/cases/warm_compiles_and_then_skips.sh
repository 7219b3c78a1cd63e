#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32 activation=relu,identity --arch sm_80 --jobs 1 | sed '/^slowest/,$d'
gdpa-jit warm head_dim=32 activation=relu,identity --arch sm_80 --jobs 1 | sed '/^spilling/,$d'
gdpa-jit warm head_dim=32 activation=relu,identity,square --arch sm_80 --jobs 1 -v 2>err.txt | sed '/^spilling/,$d'
gdpa-jit warm head_dim=32 activation=relu,identity --arch sm_80 --quiet
gdpa-jit list --columns target,spec --sort spec
grep -c 'event=compile' err.txt
