#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
gdpa-jit list --columns all | head -n 1
gdpa-jit list | head -n 1
gdpa-jit list --json
