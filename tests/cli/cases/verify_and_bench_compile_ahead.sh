#!/bin/sh
# needs: fake
# Kernels that are going to run are compiled beforehand, several at a time; what cannot be compiled is met again, and said, when its turn comes.
gdpa-jit verify head_dim=32,40,48 activation=relu --arch sm_80 --jobs 3 >out.txt 2>err.txt
echo "verify ended with $?"
grep -c 'compiled ahead' err.txt
gdpa-jit list --columns spec | sort
gdpa-jit verify head_dim=32,40,48 activation=relu --arch sm_80 --jobs 3 2>err.txt >out.txt
grep -c 'compiled ahead' err.txt
gdpa-jit verify head_dim=56,64 activation=relu --arch sm_80 --jobs 1 2>err.txt >out.txt
gdpa-jit verify head_dim=72 activation=relu --arch sm_80 --jobs 3 2>err.txt >out.txt
gdpa-jit list --columns spec | sort
GDPAJIT_LIBCUDA=$(dirname "$FAKE_DRIVER")/libfake_gpu.so
export GDPAJIT_LIBCUDA
gdpa-jit bench --case fwd/dense/d80/q8/k8/h1/b1/relu --case fwd/dense/d88/q8/k8/h1/b1/relu --seconds 0 --no-cublas --jobs 2 2>err.txt >out.txt
echo "bench ended with $?"
grep -c '2 kernels compiled ahead' err.txt
