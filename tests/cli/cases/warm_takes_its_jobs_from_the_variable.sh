#!/bin/sh
# needs: fake
at_a_time() {
    "$@" 2>&1 | sed -n 's/.* \([0-9]*\) at a time.*/\1 jobs/p'
}
at_a_time env GDPAJIT_JOBS=3 gdpa-jit warm head_dim=32 activation=relu --arch sm_80
at_a_time env GDPAJIT_JOBS=3 gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --jobs 5
GDPAJIT_UNKNOWN=1 gdpa-jit warm head_dim=40,48 activation=relu --arch sm_80 --jobs 2 --quiet --color never
GDPAJIT_UNKNOWN=1 gdpa-jit warm head_dim=56,64 activation=relu --arch sm_80 --jobs 2 2>&1 >/dev/null | grep -c GDPAJIT_UNKNOWN
