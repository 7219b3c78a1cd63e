#!/bin/sh
# needs: fake
# However much is there; named by its SHA-256 as well.
gdpa-jit warm head_dim=32,40 activation=relu --arch sm_80 --pack whole.pack --quiet
for bytes in 0 1 50 100 4096 8192 20000; do
    head -c $bytes whole.pack >part.pack
    gdpa-jit unpack part.pack --cache-dir other
    gdpa-jit unpack "part.pack@sha256:$(sha256sum part.pack | cut -d' ' -f1)" --cache-dir other
done 2>&1 | sed "s/ (.*):/:/"
GDPAJIT_PACKS=part.pack:whole.pack GDPAJIT_MODE=strict gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --cache-dir third --jobs 1 2>/dev/null
echo 'with other modes:'
for mode in off readonly; do
    GDPAJIT_MODE=$mode gdpa-jit warm head_dim=32 activation=relu --arch sm_80 --quiet
done
