#!/bin/sh
# needs: fake
# A kernel that passed once and no longer compiles does not keep its passing line.
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
fields() {
    sed -e 's/"max_err".*"ok"/"ok"/' -e 's/,"regs".*//' record.jsonl
}
verify() {
    gdpa-jit verify head_dim=64 activation=relu --shapes no-queries --seed 1 --record record.jsonl --quiet >out.txt
    echo "code $?"
}
verify
fields
rm -rf cache
FAKE_NVRTC_FAIL=6
export FAKE_NVRTC_FAIL
verify
sed 's/ *[0-9.]* s  fwd/ T s  fwd/' out.txt
fields
