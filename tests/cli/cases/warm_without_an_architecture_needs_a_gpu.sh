#!/bin/sh
# needs: nvrtc
gdpa-jit warm head_dim=64 activation=relu,silu
