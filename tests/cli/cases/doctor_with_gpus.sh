#!/bin/sh
# needs: fake
# Which GPUs are found, and how one without kernels is told from one that does not start.
export GDPAJIT_LIBCUDA="$FAKE_DRIVER"
try() {
    gdpa-jit doctor --json >out.txt
    echo "$*: code $?"
    grep -o '"name":"[a-z]*","state":"[a-z]*","detail":"[^"]*"' out.txt | grep -E '"name":"(driver|device|launch)"'
}
FAKE_DRIVER_DEVICES=75 try "one without kernels"
FAKE_DRIVER_FAIL=cuInit:100 try "none that starts"
