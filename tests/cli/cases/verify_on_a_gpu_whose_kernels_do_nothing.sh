#!/bin/sh
# needs: fake
# A launch that writes nothing fails where there is something to write, is recorded as failed, and passes where there is not.
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
fields() {
    grep -o '"\(spec\|pass\|cases\|ok\|gpu\|driver\|nvrtc\)":[^,}]*' "$1" | tr '\n' ' '
    echo
}
mkdir records
gdpa-jit verify head_dim=64 activation=relu,silu --shapes single,no-queries --seed 1 --record records --quiet >out.txt
echo "code $?"
sed -e 's/ *[0-9.]* s  fwd/ T s  fwd/' -e 's/expected [-0-9.]*/expected X/' -e 's/allowed [-0-9.e]*/allowed X/' out.txt
ls records
fields records/fake_gpu_90.jsonl
gdpa-jit verify head_dim=64 activation=silu --shapes no-queries,all-empty --seed 1 --record records/fake_gpu_90.jsonl --json >out.txt
echo "code $?"
fields records/fake_gpu_90.jsonl
tail -n 1 out.txt
