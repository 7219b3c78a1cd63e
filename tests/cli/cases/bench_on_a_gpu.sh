#!/bin/sh
# needs: fake
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
export GDPAJIT_JOBS=2
fields() {
    sed 's/"\(tflops\|first_tflops\|ms\|spread\|copy_gbps\)":[0-9.e-]*/"\1":N/g; s/"\(date\|version\)":"[-0-9.]*"/"\1":"X"/g' "$1"
}
gdpa-jit bench --case fwd/dense/d64/q128/k64/h4x2/b1/fp16/relu/causal --case bwd/dense/d64/q8/k8/h1/b1/relu --case fwd/dense/d4/q8/k8/h1/b1/relu \
    --case fwd/jagged/d64/q100/k32/h1/b4/bf16/silu/fill0.5/portable --seconds 0 --record record.jsonl --no-cublas \
    --json >out.txt 2>err.txt
echo "code $?"
fields out.txt
fields record.jsonl
# With a real GPU in the machine NVML is there, but does not know this one.
sed -e '/^gdpa-jit: no clocks/d' -e 's/moves [0-9]* GB/moves N GB/' -e 's/libgdpajit [0-9.]*/libgdpajit V/' err.txt
gdpa-jit bench --case fwd/dense/d64/q128/k64/h4x2/b1/fp16/relu --seconds 0 --cublas /no/such/libcublas.so 2>err.txt | wc -l
grep cuBLAS err.txt
gdpa-jit bench --case fwd/dense/d64/q100000/k64/h100/b8/fp16/relu --seconds 0 --no-cublas --quiet
echo "code $?"
