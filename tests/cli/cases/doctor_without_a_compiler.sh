#!/bin/sh
GDPAJIT_NVRTC=/no-such-folder/libnvrtc.so gdpa-jit doctor --json >out.txt
echo "code $?"
grep -o '"name":"[a-z]*","state":"[a-z]*"' out.txt
grep -o '"healthy":[a-z]*' out.txt
