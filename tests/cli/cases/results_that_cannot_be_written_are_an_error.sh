#!/bin/sh
[ -e /dev/full ] || exit 0
gdpa-jit help >/dev/full
echo "code $?" >&2
gdpa-jit show source head_dim=64 activation=relu arch=sm_80 >/dev/full
echo "code $?" >&2
gdpa-jit show source head_dim=64 activation=relu arch=sm_80 --output /dev/full
echo "code $?" >&2
