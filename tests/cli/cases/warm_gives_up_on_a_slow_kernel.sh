#!/bin/sh
# needs: nvrtc
# A kernel takes far more than a millisecond: every one is given up, and the program ends all the same.
gdpa-jit warm head_dim=128 activation=silu --arch sm_80 --timeout 0.001 --jobs 1
