#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=64 activation=relu,silu --jobs 1
