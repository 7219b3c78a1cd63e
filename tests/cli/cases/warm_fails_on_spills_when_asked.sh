#!/bin/sh
# needs: nvrtc
# Without a spill in the kernel the option changes nothing; with one it is a failure.
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --fail-on-spill --json >out.txt
code=$?
spills=$(grep -o '"spill_bytes":[0-9]*' out.txt | cut -d : -f 2)
if [ "$spills" = 0 ] && [ "$code" = 0 ]; then
    echo "as it should be"
elif [ "$spills" != 0 ] && [ "$code" = 1 ]; then
    echo "as it should be"
else
    echo "$spills bytes spilled, code $code"
fi
