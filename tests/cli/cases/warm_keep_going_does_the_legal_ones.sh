#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32,33 activation=relu --arch sm_80 --keep-going --json >out.txt
echo "code $?"
grep -o '"state":"[a-z]*"' out.txt
grep '"type":"summary"' out.txt
gdpa-jit warm head_dim=33 activation=relu --arch sm_80 --keep-going
echo "code $?"
