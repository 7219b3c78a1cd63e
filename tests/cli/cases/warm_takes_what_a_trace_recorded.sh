#!/bin/sh
# needs: fake
# A program in production records what it asks for; warm reads it, lines of other versions and cut ones left out.
GDPAJIT_MODE=strict GDPAJIT_TRACE=$HOME/trace gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --jobs 1 --keep-going 2>/dev/null
GDPAJIT_MODE=strict GDPAJIT_TRACE=$HOME/trace gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --jobs 1 2>/dev/null
sort -u trace
echo 'fwd head_dim=64 activation=of_tomorrow arch=sm_80' >>trace
printf 'fwd head_dim=48 activation=re' >>trace
gdpa-jit warm --trace trace --jobs 1 | sed '/^slowest/,$d'
gdpa-jit warm --trace nowhere
echo "code $?"
