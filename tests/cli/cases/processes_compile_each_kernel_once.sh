#!/bin/sh
# needs: nvrtc
# Four processes start cold with the same kernels: each kernel is compiled once in all.
for process in 1 2 3 4; do
    gdpa-jit warm head_dim=32,64 activation=relu,square --arch sm_80 --jobs 1 --json --quiet >"$process.json" &
done
wait
cat ./*.json | sed -n 's/.*"compiled":\([0-9]*\),"failed":\([0-9]*\),"left":\([0-9]*\).*/\1 \2 \3/p' |
    awk '{ compiled += $1; bad += $2 + $3 } END { print compiled, "compiled,", bad, "failed or left,", NR, "processes" }'
gdpa-jit cache verify
