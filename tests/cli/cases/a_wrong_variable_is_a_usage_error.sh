#!/bin/sh
# needs: fake
# Whatever the command: the code is 2, and the line names variable, value and what is legal.
for setting in GDPAJIT_MODE=strcit GDPAJIT_JOBS=0 GDPAJIT_JOBS=99999999999999999999 GDPAJIT_CACHE_LIMIT=1.5G \
    GDPAJIT_CACHE_LIMIT=-1 GDPAJIT_CACHE_LIMIT=9999999T GDPAJIT_CACHE_WAIT=nan GDPAJIT_CACHE_WAIT=1e9 GDPAJIT_CACHE_SHARED=maybe \
    GDPAJIT_CAPTURE=x GDPAJIT_LOG=loud; do
    env "$setting" gdpa-jit cache stats 2>&1
    echo "code $?"
done
for command in list env doctor 'cache verify' 'pack x' 'unpack x' 'why head_dim=32 activation=relu arch=sm_80' \
    'warm head_dim=32 activation=relu arch=sm_80' 'show ptx gdpa'; do
    # shellcheck disable=SC2086 # words
    GDPAJIT_MODE=strcit gdpa-jit $command >/dev/null 2>&1
    echo "$command: $?"
done
