#!/bin/sh
# Status 4 before anything is compiled.
GDPAJIT_MODE="readonly" gdpa-jit warm head_dim=32 activation=relu --arch sm_80
echo "code $?"
GDPAJIT_MODE=off gdpa-jit warm head_dim=32 activation=relu --arch sm_80
echo "code $?"
echo text >file
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --cache-dir file
echo "code $?"
