#!/bin/sh
# needs: nvrtc
# The kernel in work is finished, the rest is named, and the same command goes on.
: >out.txt
gdpa-jit warm head_dim=32 activation=all --arch sm_80 --jobs 1 --json --progress never >out.txt 2>err.txt &
process=$!
tries=0
while [ "$(grep -c compiled out.txt)" = 0 ] && [ $tries -lt 1000 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
kill -INT $process
wait $process
echo "code $?"
compiled=$(grep -c '"state":"compiled"' out.txt)
left=$(grep -c '"state":"left"' out.txt)
echo "all: $((compiled + left)) of 17"
[ "$compiled" -ge 1 ] && [ "$left" -ge 1 ] && echo "some are compiled, some are left"
grep -o '"interrupted":true' out.txt
sed 's/[0-9]* of 17/SOME of 17/' err.txt
echo "cached now: $(($(gdpa-jit list --json | grep -o '"name"' | wc -l) - compiled)) more than were compiled"
