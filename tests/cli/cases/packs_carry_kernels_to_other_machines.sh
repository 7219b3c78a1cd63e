#!/bin/sh
# needs: fake
# Written, checked, unpacked; a pack serves a program that has neither the compiler nor a cache of its own.
gdpa-jit pack empty.pack
echo "code $?"
gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --jobs 1 --pack warm.pack | sed -n '/pack/p'
gdpa-jit warm head_dim=64 activation=relu --arch sm_90a --jobs 1 >/dev/null
gdpa-jit pack all.pack | sed -E 's/[0-9]+ bytes/N bytes/; s/[0-9a-f]{64}/SHA256/'
gdpa-jit pack hopper.pack --target sm_90a --code-only --json | sed -E 's/[0-9a-f]{64}/SHA256/'
gdpa-jit pack none.pack --target sm_120
echo "code $?"
gdpa-jit pack one.pack gdpa_fwd_sm90 | sed -E 's/[0-9]+ bytes/N bytes/; s/[0-9a-f]{64}/SHA256/'
gdpa-jit unpack --check all.pack | sed -E 's/[0-9a-f]{64}/SHA256/'
GDPAJIT_CACHE_DIR=$HOME/other gdpa-jit unpack all.pack --json | sed -E 's/[0-9a-f]{64}/SHA256/'
hash=$(sha256sum all.pack | cut -d' ' -f1)
GDPAJIT_CACHE_DIR=$HOME/third gdpa-jit unpack "all.pack@sha256:$hash" | sed -E 's/[0-9a-f]{64}/SHA256/'
GDPAJIT_CACHE_DIR=$HOME/fourth gdpa-jit unpack all.pack@sha256:00
echo "code $?"
GDPAJIT_PACKS=$HOME GDPAJIT_MODE=strict GDPAJIT_NVRTC=/nowhere GDPAJIT_CACHE_DIR=$HOME/fifth \
    gdpa-jit why head_dim=32 activation=relu arch=sm_80 | sed -n '/^found/p'
echo 'this is no pack' >bad.pack
gdpa-jit unpack bad.pack
echo "code $?"
