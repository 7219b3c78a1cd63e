#!/bin/sh
export GDPAJIT_NVRTC=/no-such-folder/libnvrtc.so
gdpa-jit show source fwd head_dim=64 activation=gelu arch=sm_80 >source.cu
gdpa-jit show source 'fwd d=64 act=gelu' --arch 80 --output again.cu
cmp source.cu again.cu && echo "the same bytes"
grep -c 'extern "C"' source.cu
gdpa-jit show plan fwd head_dim=64 activation=gelu arch=sm_80 | grep '^family'
gdpa-jit show plan fwd head_dim=64 activation=gelu arch=sm_80 --json | cut -c 1-40
