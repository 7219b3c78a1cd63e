#!/bin/sh
# needs: fake
gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --pack one.pack --cache-dir one --quiet
GDPAJIT_PACKS=$PWD/one.pack gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --pack two.pack --cache-dir two --quiet
echo "code $?"
gdpa-jit unpack --check two.pack --cache-dir three | sed '/^sha256/d'
gdpa-jit unpack none.pack
gdpa-jit unpack ''
echo "code $?"
