#!/bin/sh
export GDPAJIT_NVRTC=/no-such-folder/libnvrtc.so
gdpa-jit show source fwd head_dim=64 activation=gelu arch=sm_90a >source.cu
gdpa-jit show source 'fwd d=64 act=gelu' --arch 90 --output again.cu
cmp source.cu again.cu && echo "the same bytes"
grep -c 'extern "C"' source.cu
gdpa-jit show plan fwd head_dim=64 activation=gelu arch=sm_90a | grep '^family'
gdpa-jit show plan fwd head_dim=64 activation=gelu arch=sm_90a --json | cut -c 1-40
