#!/bin/sh
# needs: fake
# A list entry lacks some numbers; nothing is compiled to learn them.
FAKE_NVRTC_VERSION=12.9 gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
gdpa-jit show resources gdpa_fwd | grep -E '^(nvrtc|stack|smem static)'
gdpa-jit show resources gdpa_fwd --json | grep -o '"smem_static":[a-z0-9]*'
gdpa-jit list --json | grep -o '"name"' | wc -l
