#!/bin/sh
# needs: fake
# An interrupt waits ten seconds for what is in work; a warm that is killed takes its workers along.
export FAKE_NVRTC_HANG=d32
gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --jobs 2 2>err.txt >out.txt &
warm=$!
sleep 1
kill -INT $warm
wait $warm
echo "code $?"
grep -c 'interrupted, and not compiled within 10 s' err.txt
gdpa-jit warm head_dim=32 activation=silu --arch sm_80 2>/dev/null >/dev/null &
warm=$!
tries=0
while ! pgrep -P $warm >worker.txt && [ $tries -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
kill -KILL $warm
wait $warm 2>/dev/null
tries=0
while kill -0 "$(head -n 1 worker.txt)" 2>/dev/null && [ $tries -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
[ $tries -lt 50 ] && echo 'the worker is gone'
